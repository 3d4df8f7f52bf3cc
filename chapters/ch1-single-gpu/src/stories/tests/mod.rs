//! What holds for every story, and for the files made from them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod assets;
mod language;
mod model;
mod tables;

use super::story;

/// A seed that differs from run to run, for properties that hold for all of them; it is in every message.
fn fresh_seed() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The words of a text, without punctuation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_ascii_alphabetic()).filter(|word| !word.is_empty())
}

#[test]
fn a_story_depends_on_seed_and_index_only_and_stories_hardly_repeat() {
    let seed = fresh_seed();
    let stories: Vec<String> = (0..10_000).map(|index| story(seed, index)).collect();
    for index in [9_999, 17, 0] {
        assert_eq!(stories[index], story(seed, index as u64), "seed {seed}, index {index}");
    }
    let distinct: std::collections::HashSet<&String> = stories.iter().collect();
    assert!(distinct.len() > 9_990, "{} of 10,000 stories are distinct, seed {seed}", distinct.len());
    let held_out = super::held_out(seed, 200_000);
    let known = held_out.lines().filter(|line| distinct.contains(&(*line).to_owned())).count();
    assert_eq!(known, 0, "held-out stories that are also in the corpus, seed {seed}");
}

#[test]
fn a_corpus_is_whole_stories_and_a_longer_one_begins_with_the_shorter() {
    let seed = fresh_seed();
    let (short, long) = (super::corpus(seed, 5_000), super::corpus(seed, 20_000));
    assert!((5_000..7_000).contains(&short.len()), "{} bytes, seed {seed}", short.len());
    assert!(long.starts_with(&short), "seed {seed}");
    for (index, line) in long.lines().enumerate() {
        let expected = if index % 2 == 0 { story(seed, index as u64 / 2) } else { super::END_OF_TEXT.to_owned() };
        assert_eq!(line, expected, "line {index}, seed {seed}");
    }
    assert_eq!(super::corpus(seed, 0), "");
}
