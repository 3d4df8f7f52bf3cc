//! Properties of the language, read off the finished text.

use std::collections::{BTreeMap, BTreeSet};

use super::super::story;
use super::super::tables::characters::{HER_NAMES, HIS_NAMES, KINDS};
use super::super::tables::things::NUMBERS;
use super::{fresh_seed, words};

const STORIES: u64 = 20_000;

fn is_somebody(word: &str) -> bool {
    KINDS.iter().any(|kind| kind.noun == word) || HIS_NAMES.contains(&word) || HER_NAMES.contains(&word)
}

/// Sentences, cut where the grammar's own count cuts them: after each full stop, exclamation or question mark.
fn sentences(text: &str) -> Vec<&str> {
    text.split_inclusive(['.', '!', '?']).filter(|part| part.contains(|c: char| c.is_ascii_alphabetic())).collect()
}

/// The text outside quotes.
fn narration(text: &str) -> String {
    text.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn stories_are_clean_lowercase_text_of_moderate_length() {
    let seed = fresh_seed();
    for index in 0..STORIES {
        let text = story(seed, index);
        let context = format!("seed {seed}, index {index}: {text}");
        assert!(text.chars().all(|c| c.is_ascii_lowercase() || " .,!?\"'".contains(c)), "{context}");
        assert!(text.starts_with(|c: char| c.is_ascii_lowercase() || c == '"'), "{context}");
        assert!(text.ends_with(['.', '!', '?', '"']), "{context}");
        for wrong in ["  ", " .", " ,", "..", ".,", " a a", " a e", " a i ", " a o", " the the "] {
            assert!(!text.contains(wrong), "{wrong:?} in {context}");
        }
        assert_eq!(text.matches('"').count() % 2, 0, "{context}");
        assert!((5..=24).contains(&sentences(&text).len()), "{} sentences, {context}", sentences(&text).len());
        assert!((150..=900).contains(&text.len()), "{} bytes, {context}", text.len());
    }
}

#[test]
fn a_pronoun_refers_to_somebody_of_this_or_the_last_sentence_and_he_is_never_she() {
    let seed = fresh_seed();
    for index in 0..STORIES {
        let text = story(seed, index);
        let context = format!("seed {seed}, index {index}: {text}");
        let mut last_mention = None;
        let mut subjects = BTreeMap::new();
        for (number, sentence) in sentences(&text).into_iter().enumerate() {
            for word in words(sentence) {
                let pronoun = matches!(word, "he" | "she" | "him" | "her" | "his" | "himself" | "herself");
                if pronoun {
                    assert!(
                        last_mention.is_some_and(|last| number <= last + 1),
                        "{word} in sentence {number}, {context}"
                    );
                }
                if pronoun || is_somebody(word) {
                    last_mention = Some(number);
                }
                let genders: &mut BTreeSet<bool> = subjects.entry(word).or_default();
                genders.extend(HIS_NAMES.contains(&word).then_some(true));
                genders.extend(HER_NAMES.contains(&word).then_some(false));
            }
        }
        let named: BTreeSet<bool> = subjects.values().flatten().copied().collect();
        let names = subjects.values().filter(|genders| !genders.is_empty()).count();
        assert_eq!(named.len(), names, "two names are two genders, {context}");
    }
}

#[test]
fn only_the_hero_comes_without_introduction() {
    let seed = fresh_seed();
    for index in 0..STORIES {
        let text = story(seed, index);
        let told = narration(&text);
        let told: Vec<&str> = words(&told).collect();
        let mut seen = BTreeSet::new();
        let mut unintroduced = 0;
        for (at, word) in told.iter().enumerate().filter(|(_, word)| KINDS.iter().any(|kind| kind.noun == **word)) {
            // "like the baker" compares; nobody comes in.
            let compared = at >= 2 && told[at - 2] == "like";
            if !compared && seen.insert(*word) {
                unintroduced += usize::from(at >= 1 && told[at - 1] == "the" && (at < 2 || told[at - 2] != "friend"));
            }
        }
        assert!(unintroduced <= 1, "seed {seed}, index {index}: {text}");
        assert!(seen.len() <= 3, "seed {seed}, index {index}: {text}");
    }
}

#[test]
fn what_is_given_or_paid_and_what_is_left_add_up() {
    let seed = fresh_seed();
    let mut checked = 0;
    for index in 0..STORIES {
        let text = story(seed, index);
        let told: Vec<&str> = words(&text).collect();
        // Number words in front of things, in the order of the text; `two weeks`, `to ten` and the like are not.
        let counted = |pair: &[&str]| {
            let number = NUMBERS.iter().position(|number| *number == pair[0])?;
            let thing = ["apple", "pear", "plum", "nut", "cherr", "carrot", "strawberr", "cookie", "peach", "coin"];
            thing.iter().any(|thing| pair[1].starts_with(thing)).then_some(number)
        };
        let numbers: Vec<usize> = told.windows(2).filter_map(counted).collect();
        if let ([all, some, rest], true) = (&numbers[..], text.contains(" left.")) {
            assert_eq!(*all, some + rest, "seed {seed}, index {index}: {text}");
            checked += 1;
        }
    }
    assert!(checked > STORIES / 50, "only {checked} of {STORIES} stories count, seed {seed}");
}

#[test]
fn the_dog_sat_more_often_than_it_did_anything_else() {
    let seed = fresh_seed();
    let (mut first, mut anywhere) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for index in 0..STORIES {
        let text = story(seed, index);
        for (at, found) in text.match_indices("the dog ") {
            let next = words(&text[at + found.len()..]).next().unwrap_or_default().to_owned();
            *anywhere.entry(next.clone()).or_default() += 1;
            if at == 0 {
                *first.entry(next).or_default() += 1;
            }
        }
    }
    for (place, counts, share) in [("at the beginning", first, 0.6), ("anywhere", anywhere, 0.2)] {
        let total: usize = counts.values().sum();
        let sat = counts.get("sat").copied().unwrap_or_default();
        let other = counts.iter().filter(|(word, _)| *word != "sat").max_by_key(|(_, count)| **count).unwrap();
        println!("the dog … {place}: sat {sat} of {total}, then {other:?}");
        assert!(sat as f64 > share * total as f64, "{place}: sat {sat} of {total}, seed {seed}");
        assert!(2 * sat > 3 * *other.1, "{place}: sat {sat}, {other:?}, seed {seed}");
    }
}

#[test]
fn the_vocabulary_is_small_and_every_word_is_used_often() {
    let mut counts = BTreeMap::<String, usize>::new();
    for index in 0..STORIES {
        let text = story(1, index);
        words(&text).for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
    }
    let total: usize = counts.values().sum();
    println!("{} words, {:.1} per story", counts.len(), total as f64 / STORIES as f64);
    assert!((600..=1000).contains(&counts.len()), "{} different words", counts.len());
    let rare: Vec<_> = counts.iter().filter(|(_, count)| **count < 10).collect();
    assert!(rare.is_empty(), "too rare to be learnt: {rare:?}");
}
