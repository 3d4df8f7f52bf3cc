//! Plots about rain, snow and the night.

use super::super::openings::{GOING_HOME, GOOD_NIGHT, SLEEPING};
use super::{
    Plot,
    Setting::Outdoors,
    Sky::{Cloudy, Night, Winter},
};

pub(super) const PLOTS: &[Plot] = &[RAIN, WIND, WRONG_WAY, SNOWMAN, COLD, STARS];

const RAIN: Plot = Plot {
    setting: Outdoors,
    sky: Cloudy,
    moods: &["quiet", "calm", "a little sad"],
    stages: &[
        &[
            "then a drop of rain fell on {hero.his} nose.",
            "soon it began to rain.",
            "then the rain came, first a little and then a lot.",
        ],
        &[
            "{hero} {hero.went} [to an old barn|under a big tree|under a bridge]. {friend} was there too, cold and wet.",
            "{hero} had no coat and got very wet. then {friend} came with a big umbrella.",
        ],
        &[
            "\"come here,\" said {friend!}. \"it is dry.\"",
            "\"come closer,\" said {friend!}. \"then we can keep warm.\"",
            "\"what bad weather!\" said {friend!}.",
        ],
        &[
            "they waited and listened to the rain.",
            "they told each other stories.",
            "there was thunder, but they were not afraid.",
        ],
        &[
            "after a while, the rain stopped and the sun came out.",
            "then the clouds went away, and there was a rainbow [over the hills|over the fields|in the sky].",
        ],
        &[
            "they jumped into every puddle on the way home.",
            "\"look, how beautiful!\" said {hero!}.",
            "everything was fresh and green.",
        ],
    ],
    endings: GOING_HOME,
};

const WIND: Plot = Plot {
    setting: Outdoors,
    sky: Cloudy,
    moods: &["happy", "quiet", "bored"],
    stages: &[
        &["{hero} had {a thing}. {hero} had put it on the ground.", "{hero} had {a thing} and did not hold it tight."],
        &[
            "then a strong wind came and blew it away.",
            "whoosh! the wind took it and blew it over the [wall|fence|trees].",
        ],
        &["\"stop!\" cried {hero!} and ran after it.", "{hero} ran and ran, but the wind was faster."],
        &[
            "it fell down in front of {friend.him}. \"is this your {thing}?\" asked {friend!}.",
            "{friend} saw it fly by and caught it. \"is this yours?\" asked {friend!}.",
        ],
        &["\"yes, thank you,\" said {hero!}.", "\"yes, it is my {thing},\" said {hero!}. \"thank you so much.\""],
        &[
            "after that, {hero} held {the thing} tight.",
            "\"next time, hold it tight,\" said {friend!}. they both laughed.",
        ],
    ],
    endings: GOING_HOME,
};

const WRONG_WAY: Plot = Plot {
    setting: Outdoors,
    sky: Cloudy,
    moods: &["tired", "ready to go home", "a little tired"],
    stages: &[
        &[
            "it was time to go home, but {hero} took the wrong path.",
            "{hero} wanted to go home, but the fog was so thick that {hero} lost the way.",
        ],
        &[
            "all the trees looked the same. soon it was dark.",
            "{hero} {hero.went} to the left and to the right, and then it was dark.",
        ],
        &[
            "\"i am lost,\" said {hero!}. a tear fell on the ground.",
            "{hero} sat down on a stone and cried.",
            "\"is anybody there?\" called {hero!}.",
        ],
        &[
            "then a small light came through the trees. it was {friend} with a lamp.",
            "then {friend} came along. \"i know the way,\" said {friend!}.",
        ],
        &[
            "\"come with me,\" said {friend!}. \"i will take you home.\"",
            "{friend} went first, and {hero} came behind {friend.him}.",
            "they went through the wood side by side.",
        ],
        &[
            "soon {hero} saw the lights of the house. \"thank you, {friend.call},\" said {hero!}.",
            "after [an hour|a short time], they were home. they drank hot tea by the fire.",
        ],
    ],
    endings: SLEEPING,
};

const SNOWMAN: Plot = Plot {
    setting: Outdoors,
    sky: Winter,
    moods: &["happy", "cold but happy", "wide awake"],
    stages: &[
        &[
            "{friend} came out to play. \"let us make a snowman,\" said {friend!}.",
            "\"shall we make a snowman?\" asked {friend!}. \"oh yes,\" said {hero!}.",
        ],
        &[
            "they rolled a big ball of snow and put a small one on top.",
            "they rolled three balls of snow, a big one, a small one and a tiny one.",
        ],
        &[
            "{hero} gave the snowman a carrot for a nose, and {friend} brought [an old hat|a red scarf|a broom].",
            "the snowman got two stones for eyes and [a carrot for a nose|an old pot for a hat].",
        ],
        &[
            "\"this looks like the [baker|postman|king],\" said {hero!}. they both laughed.",
            "\"hello, snowman,\" said {friend!}. but the snowman did not answer.",
        ],
        &[
            "then they went inside and drank hot [milk|tea|chocolate] by the fire.",
            "then they threw snowballs until they were cold and wet.",
        ],
        &["\"good night, snowman,\" said {friend!}.", "the snowman stood in the moonlight and smiled.", ""],
    ],
    endings: GOING_HOME,
};

const COLD: Plot = Plot {
    setting: Outdoors,
    sky: Winter,
    moods: &["cold", "very cold", "cold and tired"],
    stages: &[
        &[
            "the wind was icy, and {hero} had no [coat|hat|gloves].",
            "{hero.his} [nose was|ears were|feet were] as cold as ice.",
        ],
        &[
            "{friend} looked out of the window and saw {hero.him}. \"come in!\" said {friend!}.",
            "{friend} came by with a sledge. \"come home with me,\" said {friend!}.",
        ],
        &[
            "inside, there was a big fire. {friend} gave {hero.him} {a thing} and a cup of hot tea.",
            "they sat down by the fire, and {friend} made some soup.",
        ],
        &["soon {hero} was warm again.", "\"now i am warm,\" said {hero!}."],
        &[
            "outside it snowed and snowed, but inside it was warm.",
            "they watched the snow and [told stories|sang old songs|ate baked apples].",
        ],
        &["\"come again tomorrow,\" said {friend!}.", "\"you have a warm heart,\" said {hero!}."],
    ],
    endings: GOING_HOME,
};

const STARS: Plot = Plot {
    setting: Outdoors,
    sky: Night,
    moods: &["quiet", "a little lonely", "wide awake"],
    stages: &[
        &["{hero} counted the stars. one, two, three, four, five.", "{hero} looked up and saw a thousand stars."],
        &[
            "then a star fell from the sky. \"now i can make a wish,\" said {hero!}.",
            "a bright star fell down behind the hills. {hero} made a wish.",
        ],
        &["{hero} wished for [a friend|somebody to talk to].", "\"i wish i had a friend,\" said {hero!}."],
        &[
            "then {friend} came along. \"did you see the star?\" asked {friend!}.",
            "behind {hero.him} stood {friend}. \"i saw it too,\" said {friend!}.",
        ],
        &["\"yes,\" said {hero!}. \"sit down and look with me.\"", "they sat down and looked at {view} together."],
        &["so the wish came true.", "\"my wish came true,\" thought {hero!}.", "they stayed until late at night."],
    ],
    endings: GOOD_NIGHT,
};
