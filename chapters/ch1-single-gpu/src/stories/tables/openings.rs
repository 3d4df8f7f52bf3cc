//! How a story begins and how it ends.

use super::Template;

/// The usual beginning: the hero sits somewhere. This is why `the dog` goes on with `sat`.
pub(in super::super) const SITTING: &[Template] = &[
    "{hero} sat {spot}.",
    "{hero} sat {spot}. {weather}",
    "{hero} sat {spot}. {hero} was {mood}.",
    "{hero} sat {spot} and looked at {view}.",
    "{hero} sat {spot} and looked at {view}. {hero} was {mood}.",
    "{hero} sat {spot}. {hero} looked at {view}.",
];

/// Other beginnings with a hero who has no name.
pub(in super::super) const MOVING: &[Template] = &[
    "{hero} [lay|stood|rested|waited] {spot}. {weather}",
    "{hero} [lay|stood|rested] {spot} and looked at {view}.",
    "{hero} was {mood}. {weather}",
    "{hero} was {mood} that {time}.",
    "{hero} liked to sit {spot}.",
];

/// Beginnings with the day before the hero.
pub(in super::super) const DAYS: &[Template] = &[
    "one {time}, {hero} sat {spot}.",
    "one {time}, {hero} sat {spot} and looked at {view}.",
    "{weather} {hero} sat {spot}.",
    "{weather} {hero} was {mood}.",
];

/// Beginnings that give the hero a name.
pub(in super::super) const NAMING: &[Template] = &[
    "there was once {a hero} called {hero.name}. {hero} lived in a {hero.cosy} {hero.home}[| {near}].",
    "once upon a time, there was {a hero} called {hero.name}.",
    "{hero.name} was {a hero}. {hero} lived in a {hero.cosy} {hero.home}[| {near}].",
    "long ago, {a hero} called {hero.name} lived {near}.",
];

/// What follows a name.
pub(in super::super) const AFTER_NAMING: &[Template] = &[
    "one {time}, {hero} sat {spot}.",
    "one {time}, {hero} was {mood}.",
    "one {time}, {hero} sat {spot} and looked at {view}.",
];

/// Last sentences of a story about friends.
pub(in super::super) const GOOD_DAY: &[Template] =
    &["it was a [good|happy|lovely] day.", "{hero} was [happy|very happy|very glad].", "they never forgot that day."];

/// Last sentences of a story that ends away from home.
pub(in super::super) const GOING_HOME: &[Template] = &[
    "it was a [good|happy|lovely] day.",
    "then {hero} {hero.went} home.",
    "in the evening, {hero} {hero.went} home and slept well.",
    "{hero} {hero.went} home, tired but happy.",
    "at home, {hero} ate {hero.food} and went to bed.",
];

/// Last sentences of a story that ends at home.
pub(in super::super) const SLEEPING: &[Template] = &[
    "it was a [good|happy|lovely] day.",
    "that night, {hero} slept well.",
    "that night, {hero} fell asleep with a smile.",
    "{hero} was [happy|very happy|very glad].",
];

/// Last sentences of a story that ends at night.
pub(in super::super) const GOOD_NIGHT: &[Template] =
    &["it was a good night.", "the moon shone on the [roofs|fields|trees].", "soon all was quiet."];
