//! Plots that happen outside on a fair day.

use super::super::openings::{GOING_HOME, GOOD_DAY, SLEEPING};
use super::{Plot, Setting::Outdoors, Sky::Fair};

pub(super) const PLOTS: &[Plot] = &[WATCHING, LOST, HIDING, SEED, GIVING, PICKING, MARKET, BOAT];

const WATCHING: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "calm", "quiet", "a little tired"],
    stages: &[
        &[
            "a [bird|butterfly|bee|ladybird] came and sat [on {hero.his} nose|on a leaf|beside {hero.him}]. {hero} kept very still.",
            "a leaf fell on {hero.his} head. {hero} laughed.",
            "a white cloud went by. it looked like a [sheep|ship|fish|castle|big cake].",
            "{hero} listened to the [wind|birds|bees].",
        ],
        &["\"how beautiful it is here,\" thought {hero!}.", "\"i like it here,\" said {hero!}.", ""],
        &[
            "then {friend} came along. \"may i sit with you?\" asked {friend!}. \"of course,\" said {hero!}.",
            "then {friend} came by and sat down beside {hero.him}. \"what are you doing?\" asked {friend!}.",
        ],
        &[
            "they looked at {view} and did not say a word.",
            "they talked about [the summer|old times|the weather|faraway places].",
            "{hero} told {friend.him} about {view}.",
        ],
        &[
            "they sat there until the sun went down.",
            "when the sun went down, it was time to go home.",
            "it was so [warm|quiet] that they both fell asleep.",
        ],
    ],
    endings: GOING_HOME,
};

const LOST: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["sad", "worried", "very sad"],
    stages: &[
        &["{hero} had lost {a thing}.", "{hero} had {a thing}, but now it was gone."],
        &[
            "{hero} looked under the [bushes|leaves|stones] and behind the [trees|wall|fence]. there was no {thing}.",
            "\"where is my {thing}?\" cried {hero!}. {hero} looked everywhere.",
            "{hero} could not find it.",
        ],
        &[
            "{friend} came along. \"why are you sad?\" asked {friend!}. \"i have lost my {thing},\" said {hero!}.",
            "then {hero} met {friend.him}. \"have you seen my {thing}?\" asked {hero!}. \"no,\" said {friend!}.",
        ],
        &["\"i will help you to look for it,\" said {friend!}.", "they looked together, here and there, high and low."],
        &[
            "at last {friend} found it [under a leaf|behind a tree|by the path|in a hole in the wall].",
            "\"here it is!\" cried {friend!}. {the thing} was [in a tree|under a stone|in the tall grass].",
        ],
        &[
            "{hero} was so happy that {hero} [danced|jumped|sang]. \"thank you, {friend.call},\" said {hero!}.",
            "from that day on, {hero} took good care of {the thing}.",
            "\"thank you!\" said {hero!}. \"now we can play with it.\"",
        ],
    ],
    endings: GOOD_DAY,
};

const HIDING: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "bored", "wide awake"],
    stages: &[
        &[
            "{friend} came by. \"let us play hide and seek,\" said {friend!}.",
            "\"shall we play a game?\" asked {friend!}. \"yes, let us play hide and seek,\" said {hero!}.",
        ],
        &[
            "{hero} closed {hero.his} eyes and counted. \"one, two, three, four, five, six, seven, eight, nine, ten!\"",
            "{hero} counted to five. \"one, two, three, four, five!\"",
        ],
        &[
            "{friend} hid [behind a big rock|under a heap of leaves|in an old barrel].",
            "{friend} ran away and hid [behind a cart|in a hollow tree|under a boat].",
        ],
        &[
            "{hero} looked behind the [gate|bench|tree] and under the [bush|bridge], but nobody was there.",
            "{hero} looked here and there for a long time.",
        ],
        &[
            "then somebody sneezed. \"i found you!\" cried {hero!}.",
            "then {hero} heard a laugh. \"i can see you!\" cried {hero!}.",
            "at last {hero} saw {friend.his} [hat|head|nose]. \"i found you!\" cried {hero!}.",
        ],
        &[
            "then {friend} counted, and {hero} hid.",
            "they played until it was time for supper.",
            "\"that was fun,\" said {friend!}. \"let us play again.\"",
        ],
    ],
    endings: GOING_HOME,
};

const SEED: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "curious", "full of ideas"],
    stages: &[
        &[
            "{hero} found a small seed [on the path|in the grass|under a leaf].",
            "{friend} gave {hero.him} a small seed.",
        ],
        &["{hero} dug a hole and put the seed in it.", "{hero} took the seed home and put it in [the ground|a pot]."],
        &[
            "every day {hero} gave it water and waited.",
            "\"please grow,\" said {hero!}. every day {hero} gave it some water.",
        ],
        &[
            "after [one week|two weeks|three weeks], there was a [tiny|small] green leaf.",
            "one morning, a little green leaf looked out of the ground.",
        ],
        &[
            "it grew and grew. in summer there were {n} [red|yellow|white|blue] flowers on it.",
            "it grew as high as the [fence|door|wall]. there were {n} [tomatoes|strawberries|roses] on it.",
        ],
        &[
            "{hero} gave one to {friend.him}. \"how lovely!\" said {friend!}.",
            "{friend} came to see it. \"you are a good gardener,\" said {friend!}.",
        ],
    ],
    endings: GOOD_DAY,
};

const GIVING: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "in a good mood", "not hungry at all"],
    stages: &[
        &["{hero} had {n fruits} in a [basket|bag|bowl].", "there were {n fruits} in {hero.his} [basket|bag]."],
        &[
            "{friend} came by. \"i am so hungry,\" said {friend!}.",
            "then {hero} met {friend.him}. \"what have you got there?\" asked {friend!}.",
        ],
        &[
            "{hero} gave {friend.him} {m fruits}. now {hero} had {rest fruits} left.",
            "\"take some,\" said {hero!}. {friend} took {m fruits}, and {hero} had {rest} left.",
        ],
        &[
            "\"thank you,\" said {friend!}. \"you are very kind.\"",
            "\"how good they are!\" said {friend!}.",
            "{friend} [smiled|was very glad].",
        ],
        &[
            "they sat down [under a tree|in the shade|side by side] and ate.",
            "then they ate together and watched {view}.",
        ],
    ],
    endings: GOING_HOME,
};

const PICKING: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "hungry", "wide awake"],
    stages: &[
        &[
            "{friend} came along with a basket. \"let us look for {fruits},\" said {friend!}.",
            "\"shall we look for {fruits}?\" asked {friend!}. \"yes,\" said {hero!}.",
        ],
        &["{hero} found {m fruits}, and {friend} found {rest}.", "soon {hero} had {m fruits}. {friend} had {rest}."],
        &[
            "together they had {n fruits}.",
            "they counted them. there were {n} in the basket.",
            "\"now we have {n fruits},\" said {hero!}.",
        ],
        &[
            "they took them home and made [a big pie|jam|juice].",
            "they washed them and ate them all.",
            "they gave one to a [poor old man|little bird|small child] and ate the others.",
        ],
        &[
            "\"that was good,\" said {friend!}.",
            "after that, nobody was hungry.",
            "\"tomorrow we will look for more,\" said {hero!}.",
        ],
    ],
    endings: GOOD_DAY,
};

const MARKET: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "curious", "wide awake"],
    stages: &[
        &[
            "{hero} wanted to go to the market and took {n} coins.",
            "it was market day. {hero} had {n} coins in {hero.his} bag.",
        ],
        &[
            "{hero} {hero.went} over the bridge, past the mill and up the hill.",
            "the way to the market was long, but {hero} sang a song.",
        ],
        &[
            "there were [cakes|flowers|baskets] and [cheese|apples|shoes] and many people.",
            "it was loud and full of people.",
        ],
        &["{hero} saw {a thing}. \"how much is it?\" asked {hero!}. \"{m coins},\" said the old woman."],
        &[
            "{hero} paid and had {rest coins} left.",
            "{hero} gave the woman {m coins}. now {hero} had {rest coins} left.",
        ],
        &[
            "on the way home, {hero} met {friend.him}. \"what a fine {thing}!\" said {friend!}.",
            "at home, {hero} showed it to {friend.him}. \"i like your {thing},\" said {friend!}.",
        ],
    ],
    endings: SLEEPING,
};

const BOAT: Plot = Plot {
    setting: Outdoors,
    sky: Fair,
    moods: &["happy", "bored", "full of ideas"],
    stages: &[
        &[
            "{hero} had a little boat. \"come with me,\" said {hero!} to {friend.him}.",
            "{friend} came along with a little boat. \"do you want to come with me?\" asked {friend!}.",
        ],
        &[
            "they rowed out on the [lake|blue water]. the water was [calm|clear|cool].",
            "they took bread and cheese and went out on the lake.",
        ],
        &["but then a strong wind came, and the waves grew high.", "after a while the boat began to rock."],
        &[
            "\"hold on tight!\" cried {friend!}. {hero} held on with all {hero.his} strength.",
            "{hero} was afraid, but {friend} rowed and rowed.",
        ],
        &[
            "at last they came to a small island. there they [found sweet berries|rested in the sun|made a fire].",
            "soon the wind was gone, and they came safely to the shore.",
        ],
        &[
            "\"what a trip!\" said {hero!}.",
            "\"now we are real sailors,\" said {friend!}.",
            "\"that was better than any story,\" said {hero!}.",
        ],
    ],
    endings: GOING_HOME,
};
