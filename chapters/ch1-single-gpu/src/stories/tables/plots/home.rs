//! Plots that begin in the house.

use super::super::openings::{GOOD_NIGHT, SLEEPING};
use super::{
    Plot,
    Setting::Home,
    Sky::{Fair, Night},
};

pub(super) const PLOTS: &[Plot] = &[BAKING, PRESENT, BIRTHDAY, NOISE, CLEANING, BROKEN, SLEEPLESS];

const BAKING: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["hungry", "happy", "busy"],
    stages: &[
        &["{hero} wanted to bake {a dish}.", "\"today i will bake {a dish},\" said {hero!}."],
        &[
            "{hero} mixed [flour, eggs and milk|flour, butter and salt|flour, water and salt] in a big bowl.",
            "{hero} took flour, butter and [three|four|five] eggs from the shelf.",
        ],
        &["the {dish} went into the oven. soon the whole house smelled good.", "{hero} put it in the oven and waited."],
        &[
            "but then {hero} fell asleep, and the {dish} was burnt. so {hero} had to begin again.",
            "after an hour, the {dish} was [brown|golden] and ready.",
            "when the {dish} was ready, {hero} put it on the table.",
        ],
        &[
            "there was a knock at the door. it was {friend}. \"what smells so good?\" asked {friend!}.",
            "then {friend} came to the door. \"may i have a piece?\" asked {friend!}.",
        ],
        &[
            "they sat down at the table and ate the {dish} [with honey|with cream|while it was warm].",
            "\"sit down and eat,\" said {hero!}. the {dish} was very good.",
            "they ate and ate until there was nothing left.",
        ],
    ],
    endings: SLEEPING,
};

const PRESENT: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["busy", "happy", "full of ideas"],
    stages: &[
        &[
            "{hero} wanted to make a present for {hero's friend}.",
            "the next day was the birthday of {hero's friend}. {hero} needed a present.",
        ],
        &[
            "{hero} worked [all {time}|for three days|until late at night]. then {hero} had made {a thing}.",
            "{hero} looked in every corner and found {a thing}. it was just right.",
        ],
        &["{hero} put it in a box with a [red|blue|yellow] ribbon.", "{hero} wrapped it in [blue|white|brown] paper."],
        &[
            "then {hero} took it to {friend.him}. \"this is for you,\" said {hero!}.",
            "{hero} {hero.went} to {friend.his} door and knocked. \"this is for you,\" said {hero!}.",
        ],
        &[
            "{friend} opened it. \"what a beautiful {thing}!\" said {friend!}.",
            "\"a present for me?\" asked {friend!}. inside was {the thing}.",
        ],
        &[
            "{friend} was so happy that {friend} [danced around the room|could not speak|gave {hero.him} a hug].",
            "{friend} kept {the thing} for many years.",
            "\"thank you, {hero.call},\" said {friend!}. \"i love it.\"",
        ],
    ],
    endings: SLEEPING,
};

const BIRTHDAY: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["sad", "lonely", "not happy"],
    stages: &[
        &[
            "it was {hero.his} birthday, but nobody had come.",
            "it was {hero.his} birthday, but nobody had said a word about it.",
        ],
        &[
            "\"they have all forgotten me,\" said {hero!}.",
            "{hero} waited and waited. the house was very quiet.",
            "a tear fell on {hero.his} nose.",
        ],
        &[
            "then there was a knock at the door. {friend} stood outside with {a thing} in a box.",
            "then the door opened. {friend} came in with {a thing}.",
        ],
        &[
            "\"happy birthday, {hero.call}!\" said {friend!}.",
            "\"this {thing} is for you,\" said {friend!}. \"happy birthday!\"",
        ],
        &[
            "all the others came in too. there was a cake with {n} candles.",
            "behind {friend.him} were all the others, with cake and [music|flowers|balloons].",
        ],
        &["they sang and danced until late.", "it was the best birthday of all.", "{hero} was not sad any more."],
    ],
    endings: SLEEPING,
};

const NOISE: Plot = Plot {
    setting: Home,
    sky: Night,
    moods: &["tired", "sleepy", "ready for bed"],
    stages: &[
        &["{hero} went to bed and put out the light.", "{hero} wanted to sleep.", "soon {hero} was in bed."],
        &[
            "but then there was a noise [at the window|under the bed|behind the door|on the roof]. tap, tap, tap.",
            "then something went bump in the dark.",
        ],
        &[
            "\"who is there?\" asked {hero!}. nobody answered.",
            "{hero} hid under the blanket. {hero.his} heart beat fast.",
            "{hero} was afraid and did not move.",
        ],
        &[
            "at last {hero} took a lamp and looked. it was only [a branch in the wind|a bird|a little moth|an old clock|a loose board].",
            "then {hero} was brave and looked. it was only {friend}. \"i could not sleep,\" said {friend!}.",
        ],
        &[
            "{hero} laughed and went back to bed.",
            "\"so that was the noise,\" said {hero!}.",
            "\"what a silly noise,\" thought {hero!}.",
        ],
        &[
            "{hero} closed {hero.his} eyes and slept until morning.",
            "soon {hero} was fast asleep.",
            "then {hero} drank some warm milk and slept well.",
        ],
    ],
    endings: GOOD_NIGHT,
};

const CLEANING: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["busy", "cross", "wide awake"],
    stages: &[
        &[
            "the house was full of dust.",
            "\"how dirty it is here,\" said {hero!}.",
            "there were crumbs on the floor and dust on the shelf.",
        ],
        &[
            "so {hero} took a broom and swept the floor.",
            "{hero} washed the [cups|plates|windows] and swept the floor.",
            "{hero} opened all the windows and began to clean.",
        ],
        &[
            "under the bed {hero} found {a thing}. it had been lost for [a year|a long time].",
            "behind the cupboard there was {a thing}. \"i was looking for that,\" said {hero!}.",
        ],
        &[
            "then {friend} came in with dirty feet. \"oh no!\" cried {hero!}.",
            "then {friend} came to visit. \"how clean it is here!\" said {friend!}.",
        ],
        &["{friend} [took a cloth|took the broom] and helped.", "\"i will help you,\" said {friend!}."],
        &[
            "soon the whole house was clean. they sat down and drank some tea.",
            "when all was done, they had some [cake|bread and jam|tea].",
        ],
    ],
    endings: SLEEPING,
};

const BROKEN: Plot = Plot {
    setting: Home,
    sky: Fair,
    moods: &["happy", "bored", "in a good mood"],
    stages: &[
        &[
            "on the shelf was {a thing}. it belonged to {hero's friend}.",
            "on the table was {a thing}. {hero's friend} had made it.",
        ],
        &[
            "{hero} wanted to look at it, but it fell down and broke.",
            "{hero} ran around the room and hit the shelf. {the thing} fell and broke.",
        ],
        &[
            "\"what shall i do?\" thought {hero!}. {hero} wanted to hide.",
            "{hero} was very sorry and did not know what to do.",
        ],
        &[
            "but {hero} told the truth. \"i broke your {thing},\" said {hero!}. \"i am sorry.\"",
            "then {friend} came in. \"it was me,\" said {hero!}. \"i am so sorry.\"",
        ],
        &[
            "{friend} was not angry. \"we can mend it,\" said {friend!}.",
            "\"it is good that you told me,\" said {friend!}.",
        ],
        &[
            "they took some glue, and soon {the thing} was whole again.",
            "together they mended it. it looked as good as new.",
        ],
    ],
    endings: SLEEPING,
};

const SLEEPLESS: Plot = Plot {
    setting: Home,
    sky: Night,
    moods: &["tired", "wide awake", "sleepy"],
    stages: &[
        &["{hero} could not sleep.", "{hero} went to bed, but sleep did not come."],
        &[
            "{hero} counted [sheep|stars]. one, two, three, four, five, six.",
            "{hero} drank some water and lay down again, but it did not help.",
            "{hero} turned to the left and to the right.",
        ],
        &[
            "then {friend} came in with a [lamp|candle]. \"can you not sleep?\" asked {friend!}.",
            "\"why are you awake?\" asked {friend!}.",
        ],
        &[
            "\"i am afraid of the dark,\" said {hero!}.",
            "\"i had a bad dream,\" said {hero!}.",
            "\"i am not tired at all,\" said {hero!}.",
        ],
        &[
            "{friend} sat down on the bed and [sang a soft song|told a long story|read from a book].",
            "\"i will stay with you,\" said {friend!}. {friend} sang a song about [the moon|the sea|a little star].",
        ],
        &["before the end, {hero} was asleep.", "soon {hero} slept, and {friend} put out the light."],
    ],
    endings: GOOD_NIGHT,
};
