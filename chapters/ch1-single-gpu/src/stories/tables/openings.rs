//! How a story begins and how it ends.

use super::Template;
use super::places::{Setting, Sky};

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

/// A last sentence, where a story wants one.
pub(in super::super) fn endings(setting: Setting, sky: Sky) -> &'static [Template] {
    match (setting, sky) {
        (_, Sky::Night) => &["it was a good night.", "outside, the moon shone on the [roofs|fields|trees].", "soon all was quiet."],
        (Setting::Home, _) => &[
            "it was a [good|happy|lovely] day.",
            "that night, {hero} slept well.",
            "that night, {hero} fell asleep with a smile.",
            "{hero} was [happy|very happy|glad].",
        ],
        (Setting::Outdoors, _) => &[
            "it was a [good|happy|lovely] day.",
            "in the evening, {hero} {hero.went} home and slept well.",
            "then {hero} {hero.went} home.",
            "{hero} was [tired but happy|happy all day|very glad].",
            "in the evening, {hero} ate {hero.food} and went to bed.",
            "they never forgot that day.",
        ],
    }
}
