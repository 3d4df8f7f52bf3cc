//! The tables are well formed: no story is needed to see a template that would not be filled.

use super::super::grammar::{alternatives, closing};
use super::super::rng::SplitMix64;
use super::super::tables::places::{Sky, times, views, weather};
use super::super::tables::plots::PLOTS;
use super::super::tables::{Template, characters::KINDS, openings, things};
use super::super::world::World;

const SKIES: [Sky; 4] = [Sky::Fair, Sky::Cloudy, Sky::Winter, Sky::Night];

fn every_template() -> Vec<Template> {
    let mut templates = Vec::new();
    for list in [openings::SITTING, openings::MOVING, openings::DAYS, openings::NAMING, openings::AFTER_NAMING] {
        templates.extend(list);
    }
    for sky in SKIES {
        templates.extend(weather(sky));
    }
    for plot in PLOTS.iter().copied().flatten() {
        plot.stages.iter().for_each(|stage| templates.extend(*stage));
        templates.extend(plot.endings);
    }
    templates
}

/// All slots of a template, inside choices too.
fn slots(mut rest: Template, found: &mut Vec<&'static str>) {
    while let Some(hole) = rest.find(['[', '{', ']', '}']) {
        let length = closing(&rest[hole..]);
        assert!(length > 0 && hole + length < rest.len(), "a bracket without its partner in {rest:?}");
        let inside = &rest[hole + 1..hole + length];
        if rest[hole..].starts_with('{') {
            found.push(inside);
        } else {
            let parts = alternatives(inside);
            assert!(parts.len() > 1, "a choice of one in {rest:?}");
            parts.into_iter().for_each(|part| slots(part, found));
        }
        rest = &rest[hole + length + 1..];
    }
}

#[test]
fn every_bracket_is_closed_and_every_slot_is_known() {
    for template in every_template() {
        let mut found = Vec::new();
        slots(template, &mut found);
        for slot in found.into_iter().filter(|slot| *slot != "weather") {
            let mut world = World::new(SplitMix64::for_story(1, 2));
            let value = world.fill(slot);
            assert!(!value.is_empty() && !value.contains('{'), "slot {slot:?} of {template:?} became {value:?}");
        }
    }
}

#[test]
fn every_template_is_whole_sentences() {
    for template in every_template().into_iter().filter(|template| !template.is_empty()) {
        let ends = template.ends_with(['.', '!', '?']) || template.ends_with(['"', '}']);
        assert!(ends && template.trim() == template && !template.contains("  "), "{template:?}");
        assert_eq!(template.matches('"').count() % 2, 0, "a quote that is not closed in {template:?}");
    }
}

#[test]
fn no_list_is_empty() {
    assert!(SKIES.iter().all(|sky| !times(*sky).is_empty() && views(*sky).is_none_or(|views| !views.is_empty())));
    assert!(KINDS.iter().all(|kind| kind.weight > 0 && !kind.adjectives.is_empty() && !kind.went.is_empty()));
    assert!(things::THINGS.iter().all(|(_, adjectives)| !adjectives.is_empty()));
    for plot in PLOTS.iter().copied().flatten() {
        assert!(!plot.moods.is_empty() && !plot.endings.is_empty());
        assert!(plot.stages.iter().all(|stage| !stage.is_empty()));
    }
}
