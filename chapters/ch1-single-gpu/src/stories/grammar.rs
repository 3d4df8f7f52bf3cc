//! From templates to text.

use super::rng::SplitMix64;
use super::tables::{Template, openings};
use super::world::World;

/// How often, in percent, a story begins in each way; the rest begins with a name.
const SITTING: usize = 45;
const MOVING: usize = 15;
const DAYS: usize = 20;
/// How often a story has a sentence after its last event.
const ENDING: usize = 50;

/// Tells one story: a beginning, the stages of its plot, perhaps an ending.
pub(super) fn tell(rng: SplitMix64) -> String {
    let mut world = World::new(rng);
    open(&mut world);
    for stage in world.plot.stages {
        let telling = world.rng.pick(stage);
        expand(&mut world, telling);
    }
    if world.rng.chance(ENDING) {
        let ending = world.rng.pick(world.plot.endings);
        expand(&mut world, ending);
    }
    world.text.truncate(world.text.trim_end().len());
    world.text
}

fn open(world: &mut World) {
    let roll = world.rng.below(100);
    let beginnings = match roll {
        _ if roll < SITTING => openings::SITTING,
        _ if roll < SITTING + MOVING => openings::MOVING,
        _ if roll < SITTING + MOVING + DAYS => openings::DAYS,
        _ => openings::NAMING,
    };
    let beginning = world.rng.pick(beginnings);
    expand(world, beginning);
    if world.hero.named {
        let next = world.rng.pick(openings::AFTER_NAMING);
        expand(world, next);
    }
}

/// Writes a template and a space behind it.
fn expand(world: &mut World, template: Template) {
    expand_part(world, template);
    if !template.is_empty() {
        world.write(" ");
    }
}

/// Writes a template: text as it is, one part of a `[choice]`, the value of a `{slot}`, which may be a template.
fn expand_part(world: &mut World, mut rest: Template) {
    while let Some(hole) = rest.find(['[', '{']) {
        world.write(&rest[..hole]);
        let end = hole + closing(&rest[hole..]);
        let inside = &rest[hole + 1..end];
        if rest[hole..].starts_with('[') {
            let choices = alternatives(inside);
            let choice = choices[world.rng.below(choices.len())];
            expand_part(world, choice);
        } else if inside == "weather" {
            let weather = world.weather();
            expand_part(world, weather);
        } else {
            let value = world.fill(inside);
            world.write(&value);
        }
        rest = &rest[(end + 1).min(rest.len())..];
    }
    world.write(rest);
}

/// Where the bracket that `text` begins with is closed; the end of the text if it never is (a test looks for that).
pub(super) fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The parts of a choice, split at the bars that are not inside a further choice.
pub(super) fn alternatives(choice: Template) -> Vec<Template> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, character) in choice.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                parts.push(&choice[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&choice[start..]);
    parts
}
