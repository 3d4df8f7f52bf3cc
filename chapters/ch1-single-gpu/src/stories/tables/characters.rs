//! Who the stories are about.

/// Which pronouns a kind of character may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Gender {
    He,
    She,
    Either,
}
use Gender::{Either, He, She};

/// A kind of animal or person, and what fits it.
pub(in super::super) struct Kind {
    pub(in super::super) noun: &'static str,
    /// How often it is chosen, relative to the others.
    pub(in super::super) weight: usize,
    pub(in super::super) gender: Gender,
    pub(in super::super) adjectives: &'static [&'static str],
    /// How it moves: `the rabbit hopped home`.
    pub(in super::super) went: &'static [&'static str],
    /// Where it lives: `in a warm kennel`.
    pub(in super::super) home: &'static str,
    /// What it likes to eat: `some cheese`.
    pub(in super::super) food: &'static str,
}

const SMALL: &[&str] = &["small", "little", "tiny", "young", "grey", "brown", "shy", "clever", "brave"];
const LARGE: &[&str] = &["big", "old", "strong", "brown", "black", "white", "kind", "gentle", "lazy"];
const MIDDLE: &[&str] = &["small", "big", "young", "old", "white", "brown", "black", "kind", "clever", "funny"];
const CHILD: &[&str] = &["small", "little", "clever", "kind", "brave", "shy", "cheerful"];
const ADULT: &[&str] = &["young", "old", "kind", "clever", "tall", "cheerful", "busy"];

const WALK: &[&str] = &["walked", "went", "ran"];
const RUN: &[&str] = &["ran", "went", "trotted"];
const SCURRY: &[&str] = &["ran", "went", "hurried"];
const HOP: &[&str] = &["hopped", "went", "jumped"];
const FLY: &[&str] = &["flew", "went", "flew"];
const SLOW: &[&str] = &["walked slowly", "went", "crept"];
const WADDLE: &[&str] = &["waddled", "went", "walked"];

type Likes = (&'static [&'static str], &'static str, &'static str);

const fn kind(
    noun: &'static str,
    weight: usize,
    gender: Gender,
    adjectives: &'static [&'static str],
    (went, home, food): Likes,
) -> Kind {
    Kind { noun, weight, gender, adjectives, went, home, food }
}

/// Every kind of character.
pub(in super::super) const KINDS: &[Kind] = &[
    kind("dog", 12, Either, MIDDLE, (RUN, "kennel", "a big bone")),
    kind("cat", 5, Either, MIDDLE, (SCURRY, "basket", "some fish")),
    kind("mouse", 3, Either, SMALL, (SCURRY, "hole", "some cheese")),
    kind("rabbit", 3, Either, SMALL, (HOP, "burrow", "a carrot")),
    kind("fox", 3, Either, MIDDLE, (SCURRY, "den", "some grapes")),
    kind("bear", 3, Either, LARGE, (WALK, "cave", "some honey")),
    kind("hen", 2, She, MIDDLE, (WALK, "nest", "some corn")),
    kind("duck", 2, Either, MIDDLE, (WADDLE, "nest", "some bread")),
    kind("goose", 1, Either, LARGE, (WADDLE, "nest", "some grass")),
    kind("horse", 2, Either, LARGE, (RUN, "stable", "an apple")),
    kind("cow", 1, She, LARGE, (WALK, "barn", "some hay")),
    kind("pig", 2, Either, MIDDLE, (SCURRY, "barn", "some potatoes")),
    kind("goat", 1, Either, MIDDLE, (RUN, "barn", "some leaves")),
    kind("sheep", 1, Either, MIDDLE, (WALK, "barn", "some clover")),
    kind("frog", 2, Either, SMALL, (HOP, "hole", "some soup")),
    kind("owl", 2, Either, LARGE, (FLY, "nest", "a nut cake")),
    kind("crow", 1, Either, MIDDLE, (FLY, "nest", "some cherries")),
    kind("squirrel", 2, Either, SMALL, (SCURRY, "nest", "some nuts")),
    kind("hedgehog", 1, Either, SMALL, (SLOW, "den", "some mushrooms")),
    kind("badger", 1, Either, LARGE, (WALK, "burrow", "some berries")),
    kind("mole", 1, Either, SMALL, (SLOW, "burrow", "some beans")),
    kind("donkey", 1, Either, LARGE, (RUN, "stable", "some carrots")),
    kind("wolf", 1, Either, LARGE, (RUN, "den", "some stew")),
    kind("turtle", 1, Either, MIDDLE, (SLOW, "garden", "some salad")),
    kind("boy", 3, He, CHILD, (WALK, "room", "a pancake")),
    kind("girl", 3, She, CHILD, (WALK, "room", "a pancake")),
    kind("farmer", 1, Either, ADULT, (WALK, "farmhouse", "some cheese")),
    kind("baker", 1, Either, ADULT, (WALK, "house", "some plums")),
    kind("sailor", 1, Either, ADULT, (WALK, "cottage", "some fish")),
];

/// Names of those who are called he.
pub(in super::super) const HIS_NAMES: &[&str] =
    &["max", "tom", "sam", "ben", "tim", "leo", "jack", "finn", "otto", "hugo", "bruno", "felix"];

/// Names of those who are called she.
pub(in super::super) const HER_NAMES: &[&str] =
    &["mia", "lily", "anna", "ella", "nora", "molly", "bella", "rosa", "emma", "lucy", "clara", "nina"];
