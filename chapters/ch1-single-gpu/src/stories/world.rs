//! What a story remembers while it is told.
//!
//! The hero and the friend are always one he and one she, so that a pronoun has one meaning; a pronoun is used only for
//! somebody who was mentioned in this sentence or the one before.

use super::rng::SplitMix64;
use super::tables::Template;
use super::tables::characters::{Gender, HER_NAMES, HIS_NAMES, KINDS, Kind};
use super::tables::places::{self, Place, Setting, Sky};
use super::tables::plots::{PLOTS, Plot};
use super::tables::things::{DISHES, FRUITS, NUMBERS, SKILLS, THINGS};

/// How often, in percent, somebody just mentioned in the sentence before is called by a pronoun.
const PRONOUN: usize = 80;
/// How often somebody with a name is called by it.
const NAME: usize = 75;

/// Somebody in a story.
pub(super) struct Character {
    kind: &'static Kind,
    is_he: bool,
    name: &'static str,
    adjective: &'static str,
    /// The reader knows the name.
    pub(super) named: bool,
    /// The sentence of the last mention; `None` before the first.
    mentioned: Option<usize>,
}

impl Character {
    fn new(rng: &mut SplitMix64, kind: &'static Kind, is_he: bool) -> Self {
        let name = rng.pick(if is_he { HIS_NAMES } else { HER_NAMES });
        let adjective = rng.pick(kind.adjectives);
        Self { kind, is_he, name, adjective, named: false, mentioned: None }
    }

    fn he(&self) -> &'static str {
        if self.is_he { "he" } else { "she" }
    }
}

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Hero,
    Friend,
}

/// The state of a story: who, where, when, with what, and the text so far.
pub(super) struct World {
    pub(super) rng: SplitMix64,
    pub(super) plot: &'static Plot,
    pub(super) hero: Character,
    friend: Character,
    place: &'static Place,
    spot: &'static str,
    view: &'static str,
    time: &'static str,
    mood: &'static str,
    thing: (&'static str, &'static str),
    fruit: (&'static str, &'static str),
    dish: (&'static str, &'static str),
    skill: &'static str,
    /// All, those that go, those that are left: `all = some + rest`, each at least 1.
    all: usize,
    some: usize,
    sentence: usize,
    pub(super) text: String,
}

impl World {
    /// Chooses a plot, and everything that goes with it.
    pub(super) fn new(mut rng: SplitMix64) -> Self {
        let plots: Vec<&Plot> = PLOTS.iter().copied().flatten().collect();
        let plot = rng.pick(&plots);
        let hero_kind = choose_kind(&mut rng);
        let mut friend_kind = choose_kind(&mut rng);
        let he_leads = rng.chance(50);
        while friend_kind.noun == hero_kind.noun || clash(hero_kind, friend_kind) {
            friend_kind = choose_kind(&mut rng);
        }
        let hero_is_he = match (hero_kind.gender, friend_kind.gender) {
            (Gender::He, _) | (_, Gender::She) => true,
            (Gender::She, _) | (_, Gender::He) => false,
            (Gender::Either, Gender::Either) => he_leads,
        };
        let hero = Character::new(&mut rng, hero_kind, hero_is_he);
        let friend = Character::new(&mut rng, friend_kind, !hero_is_he);
        let outside = &places::PLACES[rng.below(places::PLACES.len())];
        let place = if plot.setting == Setting::Home { &places::HOME } else { outside };
        let winter_spots = plot.sky == Sky::Winter && plot.setting == Setting::Outdoors;
        let spot = rng.pick(if winter_spots { places::WINTER_SPOTS } else { place.spots });
        let view = rng.pick(places::views(plot.sky).unwrap_or(place.views));
        let time = rng.pick(places::times(plot.sky));
        let mood = rng.pick(plot.moods);
        let (noun, adjectives) = THINGS[rng.below(THINGS.len())];
        let thing = (noun, rng.pick(adjectives));
        let fruit = FRUITS[rng.below(FRUITS.len())];
        let dish = DISHES[rng.below(DISHES.len())];
        let skill = rng.pick(SKILLS);
        let all = 3 + rng.below(8);
        let some = 1 + rng.below(all - 1);
        let text = String::new();
        Self {
            rng,
            plot,
            hero,
            friend,
            place,
            spot,
            view,
            time,
            mood,
            thing,
            fruit,
            dish,
            skill,
            all,
            some,
            sentence: 0,
            text,
        }
    }

    /// Appends text and counts the sentences that end in it.
    pub(super) fn write(&mut self, text: &str) {
        self.sentence += text.matches(['.', '!', '?']).count();
        self.text.push_str(text);
    }

    /// A sentence about the weather, itself a template.
    pub(super) fn weather(&mut self) -> Template {
        self.rng.pick(places::weather(self.plot.sky))
    }

    /// The value of a slot. One that does not exist stays as it is, in its braces (a test looks for that).
    pub(super) fn fill(&mut self, slot: &str) -> String {
        let (noun, adjective) = self.thing;
        let rest = self.all - self.some;
        match slot {
            "a hero" => with_article(&format!("{} {}", self.hero.adjective, self.hero.kind.noun)),
            "hero's friend" => self.as_friend_of_hero(),
            "spot" => self.spot.into(),
            "view" => self.view.into(),
            "near" => format!("near {}", self.near()),
            "time" => self.time.into(),
            "mood" => self.mood.into(),
            "a thing" => with_article(&format!("{adjective} {noun}")),
            "the thing" if self.rng.chance(50) => format!("the {adjective} {noun}"),
            "the thing" => format!("the {noun}"),
            "thing" => noun.into(),
            "fruits" => self.fruit.1.into(),
            "a dish" => self.dish.0.into(),
            "dish" => self.dish.1.into(),
            "skill" => self.skill.into(),
            "n" => NUMBERS[self.all].into(),
            "m" => NUMBERS[self.some].into(),
            "rest" => NUMBERS[rest].into(),
            "n fruits" => count(self.all, self.fruit),
            "m fruits" => count(self.some, self.fruit),
            "rest fruits" => count(rest, self.fruit),
            "m coins" => count(self.some, ("coin", "coins")),
            "rest coins" => count(rest, ("coin", "coins")),
            _ => self.character_slot(slot).unwrap_or_else(|| format!("{{{slot}}}")),
        }
    }

    /// `{hero}`, `{hero!}` (never a pronoun), `{hero.him}`, `{hero.his}`, …, and the same for the friend.
    fn character_slot(&mut self, slot: &str) -> Option<String> {
        let (role, form) = match (slot.strip_prefix("hero"), slot.strip_prefix("friend")) {
            (Some(form), _) => (Role::Hero, form),
            (_, Some(form)) => (Role::Friend, form),
            _ => return None,
        };
        let is_he = self.character(role).is_he;
        Some(match form {
            "" if self.use_pronoun(role) => self.mention(role, self.character(role).he()),
            "" | "!" => self.noun(role),
            ".him" if self.use_pronoun(role) => self.mention(role, if is_he { "him" } else { "her" }),
            ".him" => self.noun(role),
            ".his" if self.use_pronoun(role) => self.mention(role, if is_he { "his" } else { "her" }),
            ".his" => self.noun(role) + "'s",
            ".self" => if is_he { "himself" } else { "herself" }.into(),
            ".name" => {
                let name = self.character(role).name;
                self.character_mut(role).named = true;
                self.mention(role, name)
            }
            ".call" => {
                let Character { named, name, kind, .. } = self.character(role);
                if *named { (*name).into() } else { format!("my dear {}", kind.noun) }
            }
            ".home" => self.character(role).kind.home.into(),
            ".cosy" => self.rng.pick(&["warm", "small", "little", "nice"]).into(),
            ".food" => self.character(role).kind.food.into(),
            ".went" => {
                let went = self.character(role).kind.went;
                self.rng.pick(went).into()
            }
            _ => return None,
        })
    }

    fn character(&self, role: Role) -> &Character {
        if role == Role::Hero { &self.hero } else { &self.friend }
    }

    fn character_mut(&mut self, role: Role) -> &mut Character {
        if role == Role::Hero { &mut self.hero } else { &mut self.friend }
    }

    /// Remembers that `role` is called `words` here.
    fn mention(&mut self, role: Role, words: &str) -> String {
        let sentence = self.sentence;
        self.character_mut(role).mentioned = Some(sentence);
        words.into()
    }

    /// In the same sentence always, from the sentence before mostly, else never.
    fn use_pronoun(&mut self, role: Role) -> bool {
        match self.character(role).mentioned {
            Some(sentence) if sentence == self.sentence => true,
            Some(sentence) if sentence + 1 == self.sentence => self.rng.chance(PRONOUN),
            _ => false,
        }
    }

    /// The name, or `the cat`; the first time the friend is introduced. The hero of a fable needs no introduction.
    fn noun(&mut self, role: Role) -> String {
        if role == Role::Friend && self.friend.mentioned.is_none() {
            return self.introduce_friend();
        }
        let use_name = self.character(role).named && self.rng.chance(NAME);
        let Character { name, kind, .. } = self.character(role);
        let words = if use_name { (*name).into() } else { format!("the {}", kind.noun) };
        self.mention(role, &words)
    }

    fn introduce_friend(&mut self) -> String {
        let Character { adjective, kind, name, .. } = self.friend;
        let words = if self.rng.chance(65) {
            with_article(&format!("{adjective} {}", kind.noun))
        } else {
            self.friend.named = true;
            with_article(&format!("{} called {name}", kind.noun))
        };
        self.mention(Role::Friend, &words)
    }

    /// `her friend the bear`, for somebody whom the hero knows already; then only a pronoun or the noun.
    fn as_friend_of_hero(&mut self) -> String {
        let his = self.character_slot("hero.his").unwrap_or_default();
        let noun = self.friend.kind.noun;
        self.mention(Role::Friend, &format!("{his} friend the {noun}"))
    }

    /// Near home is outside, wherever the story happens.
    fn near(&mut self) -> &'static str {
        if self.plot.setting == Setting::Home {
            places::PLACES[self.rng.below(places::PLACES.len())].name
        } else {
            self.place.name
        }
    }
}

fn choose_kind(rng: &mut SplitMix64) -> &'static Kind {
    let mut left = rng.below(KINDS.iter().map(|kind| kind.weight).sum());
    for kind in KINDS {
        if left < kind.weight {
            return kind;
        }
        left -= kind.weight;
    }
    &KINDS[0]
}

/// Two who are both always he, or both always she.
fn clash(one: &Kind, other: &Kind) -> bool {
    one.gender == other.gender && one.gender != Gender::Either
}

/// `an owl`, `a red ball`.
fn with_article(words: &str) -> String {
    let article = if words.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {words}")
}

/// `one apple`, `three apples`.
fn count(number: usize, (one, many): (&str, &str)) -> String {
    format!("{} {}", NUMBERS[number], if number == 1 { one } else { many })
}
