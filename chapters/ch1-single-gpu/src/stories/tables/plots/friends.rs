//! Plots about being and becoming friends.

use super::super::openings::{GOING_HOME, GOOD_DAY};
use super::{
    Plot,
    Setting::{Home, Outdoors},
    Sky::Fair,
};

pub(super) const PLOTS: &[Plot] = &[RESCUE, QUARREL, NEIGHBOUR, ILLNESS, LEARNING, HUNGER, VISIT];

const RESCUE: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "calm", "in a good mood", "a little bored"],
    stages: &[
        &[
            "suddenly {hero} heard a cry. \"help! help!\"",
            "then somebody called for help.",
            "then {hero} heard somebody cry.",
        ],
        &[
            "{friend} had fallen into [a deep hole|a ditch|the cold water] and could not get out.",
            "{friend} was stuck [in the mud|between two rocks|in a thorn bush].",
        ],
        &[
            "\"do not be afraid,\" said {hero!}. \"i am coming.\"",
            "{hero} thought for a moment. what could {hero} do?",
            "\"hold on!\" cried {hero!}.",
        ],
        &[
            "{hero} found a long [rope|branch|stick] and held it out to {friend.him}. {hero} pulled and pulled, and at last {friend} was free.",
            "{hero} pulled with all {hero.his} strength, and soon {friend} was free.",
            "{hero} ran to get a [rope|ladder]. [soon|then] {friend} was safe.",
        ],
        &[
            "\"thank you, {hero.call},\" said {friend!}. \"you saved me.\"",
            "\"you are very brave,\" said {friend!}.",
            "\"thank you,\" said {friend!}. \"that is what friends are for,\" said {hero!}.",
        ],
        &[
            "after that, they were [good|the best of] friends.",
            "from that day on, they played together every day.",
            "they became friends and met every {time}.",
        ],
    ],
    endings: GOOD_DAY,
};

const QUARREL: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "wide awake", "in a good mood"],
    stages: &[
        &[
            "{friend} came along. together they found {a thing} [on the path|under a bush|behind a stone].",
            "{hero} met {friend.him} on the path, and they both saw {a thing} at the same time.",
        ],
        &[
            "\"it is mine,\" said {hero!}. \"i saw it first.\" \"no, it is mine,\" said {friend!}.",
            "both of them wanted it. \"give it to me!\" cried {friend!}. \"no!\" said {hero!}.",
        ],
        &[
            "they pulled and pulled, until {the thing} fell into the mud.",
            "they pulled so hard that they both fell down.",
            "they shouted so loud that the birds flew away.",
        ],
        &[
            "then they were quiet. \"i am sorry,\" said {friend!}. \"i am sorry too,\" said {hero!}.",
            "they looked at each other and began to laugh. \"we are silly,\" said {hero!}.",
        ],
        &[
            "so they took turns. {hero} had it in the morning, and {friend} had it in the afternoon.",
            "\"let us share it,\" said {friend!}. and so they did.",
            "in the end they gave {the thing} to a poor old man, who thanked them.",
        ],
        &["it is better to share than to fight.", "they never fought about a {thing} again.", ""],
    ],
    endings: GOOD_DAY,
};

const NEIGHBOUR: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["lonely", "sad", "bored", "all alone"],
    stages: &[
        &["{hero} had no one to play with.", "there was nobody to talk to.", "all day long, nobody came to the door."],
        &[
            "then {friend} moved into the [little|empty|old] house [next door|on the hill|across the street].",
            "then {hero} saw a light in the empty house next door. {friend} had moved in.",
        ],
        &[
            "{hero} was shy. but {hero} took [a jar of honey|some flowers|a warm cake] and knocked at the door.",
            "\"i will say hello,\" thought {hero!}. {hero} took [a jar of jam|some flowers|a loaf of bread] and went to the door.",
        ],
        &[
            "\"hello, i live next door,\" said {hero!}. \"how nice! come in,\" said {friend!}.",
            "{friend} opened the door and smiled. \"come in,\" said {friend!}. \"i do not know anybody here.\"",
        ],
        &[
            "they [drank tea|ate bread and butter|played games] and talked all {time}.",
            "they told each other stories and laughed a lot.",
        ],
        &["{hero} was not lonely any more.", "now {hero} had a friend.", "from that day on, they met every day."],
    ],
    endings: GOOD_DAY,
};

const ILLNESS: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["worried", "sad", "not happy"],
    stages: &[
        &[
            "{hero's friend} was ill and had to stay in bed.",
            "{hero's friend} had a cold and could not come out to play.",
        ],
        &[
            "{hero} made some [hot|good] soup and put it in a pot.",
            "{hero} picked some [yellow|red|white] flowers and made a pot of soup.",
            "\"i know what to do,\" said {hero!}. {hero} made a big pot of soup.",
        ],
        &[
            "then {hero} {hero.went} to see {friend.him}. \"how are you?\" asked {hero!}. \"my [head|nose|ear] hurts,\" said {friend!}.",
            "{hero} took it to {friend.him}. \"you are so kind,\" said {friend!}.",
        ],
        &[
            "{friend} ate the soup, and {hero} [sang a song|read a story|told a funny story].",
            "{friend} ate all the soup and felt warm. then {friend} slept, and {hero} sat by the bed.",
        ],
        &["after [two|three|four] days, {friend} was well again.", "the next [day|week], {friend} could get up again."],
        &["they went out and played in the sun.", "\"you helped me,\" said {friend!}. \"now let us go and play.\""],
    ],
    endings: GOOD_DAY,
};

const LEARNING: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["sad", "a little sad", "cross", "quiet"],
    stages: &[
        &[
            "{hero} wanted to {skill}, but {hero} did not know how.",
            "all the others could {skill}, but {hero} could not.",
        ],
        &[
            "{hero} tried [once|twice|three times], but it did not go well.",
            "{hero} tried [again and again|all {time}], but it was too hard.",
            "\"i will never learn it,\" said {hero!}.",
        ],
        &[
            "\"do not give up,\" said {friend!}. \"i will show you how to {skill}.\"",
            "{friend} saw it and came over. \"i can teach you,\" said {friend!}.",
        ],
        &[
            "every day they [tried|worked] together.",
            "\"look, this is how you do it,\" said {friend!}. {hero} watched and tried again.",
            "it took a long time, but {friend} was patient.",
        ],
        &[
            "after a week, {hero} could {skill}.",
            "then, one {time}, {hero} could {skill} all by {hero.self}.",
            "[at last|in the end], {hero} could {skill} very well.",
        ],
        &[
            "\"i can do it!\" cried {hero!}. {friend} was very proud.",
            "\"look at me!\" cried {hero!}. {friend} [clapped and laughed|was as happy as {hero!}].",
            "now {hero} can teach others too.",
        ],
    ],
    endings: GOOD_DAY,
};

const HUNGER: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["hungry", "very hungry"],
    stages: &[
        &[
            "there was nothing to eat at home.",
            "{hero} had not eaten all day.",
            "{hero} looked for food, but there was [only a dry leaf|only an old nut|nothing at all].",
        ],
        &[
            "then {friend} came by with a basket. in the basket was {a dish}.",
            "then {hero} smelled something good. {friend} came along with {a dish}.",
        ],
        &[
            "\"are you hungry?\" asked {friend!}. \"yes, very,\" said {hero!}.",
            "\"that smells good,\" said {hero!}. \"come and eat with me,\" said {friend!}.",
            "{friend} saw that {hero} was hungry.",
        ],
        &[
            "{friend} cut the {dish} in two and gave {hero.him} half.",
            "they sat down [in the grass|under a tree] and shared the {dish}.",
        ],
        &["it was the best {dish} in the world.", "it was [sweet|warm|fresh], and they ate it all."],
        &[
            "the next day, {hero} brought {friend.him} {friend.food}.",
            "\"thank you,\" said {hero!}. \"next time i will bring {friend.food}.\"",
            "\"you are a true friend,\" said {hero!}.",
        ],
    ],
    endings: GOOD_DAY,
};

const VISIT: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["bored", "happy", "curious"],
    stages: &[
        &["then a letter came. it was from {hero's friend}.", "the postman brought a letter from {hero's friend}."],
        &[
            "\"please come and see me,\" it said. \"i have {a dish}.\"",
            "\"come to my party,\" it said. \"there will be music and {a dish}.\"",
        ],
        &[
            "{hero} put on {hero.his} best [coat|hat|shoes] and {hero.went} over the [bridge|hill|fields].",
            "the way was long. {hero} {hero.went} over the hill and through the wood.",
        ],
        &[
            "{friend} stood at the door and waved. \"there you are!\" said {friend!}.",
            "\"i am so glad to see you,\" said {friend!}.",
        ],
        &[
            "they ate the {dish} and [danced|sang|talked] until [it was dark|the moon came up].",
            "there was {dish} for everyone, and they [danced|sang] all evening.",
        ],
        &["\"come again soon,\" said {friend!}.", "\"next time you must come to me,\" said {hero!}."],
    ],
    endings: GOING_HOME,
};
