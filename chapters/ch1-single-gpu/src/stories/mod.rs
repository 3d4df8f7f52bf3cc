//! Simple stories from a grammar: the text that the bundled model learns from.
//!
//! A story is a function of (seed, index), the same on every platform. Read `tables` for what is told, `grammar`
//! for how a template becomes text, `world` for what a story remembers (who was mentioned when, so that every
//! pronoun has one meaning; what was found; how many apples are left), [`tokenizer`] for the vocabulary.

mod grammar;
mod rng;
mod tables;
#[cfg(test)]
mod tests;
pub mod tokenizer;
mod world;

use decoder::Result;
use decoder::tokenizer::Tokenizer;

/// Ends a story. One token, both `bos` and `eos` of the bundled model.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// Held-out stories are counted from here; a training corpus never gets that far.
pub const FIRST_HELD_OUT: u64 = 1 << 40;

/// The story with this `index` in the series of `seed`: about eighty lowercase words on one line.
pub fn story(seed: u64, index: u64) -> String {
    grammar::tell(rng::SplitMix64::for_story(seed, index))
}

/// At least `bytes` bytes of whole stories to train on, each followed by a line with [`END_OF_TEXT`].
pub fn corpus(seed: u64, bytes: usize) -> String {
    stories_from(seed, 0, bytes)
}

/// Like [`corpus`], of stories that no corpus of the same seed holds at the same index: to measure the loss with.
pub fn held_out(seed: u64, bytes: usize) -> String {
    stories_from(seed, FIRST_HELD_OUT, bytes)
}

/// At least `count` token ids of whole stories from index `first` on; before each story and after the last one stands `ends`, if the
/// model has such a token. Where [`END_OF_TEXT`] is that token, these are the ids of the corpus' text, with one more in front.
///
/// # Errors
/// The tokenizer refuses a story.
pub fn tokens(tokenizer: &Tokenizer, ends: Option<u32>, seed: u64, first: u64, count: usize) -> Result<Vec<u32>> {
    let mut ids = Vec::from_iter(ends);
    for index in first.. {
        if ids.len() >= count {
            break;
        }
        ids.extend(tokenizer.encode(&story(seed, index), false)?);
        ids.extend(ends);
    }
    Ok(ids)
}

/// A story as it stands in a corpus: on one line, then a line with [`END_OF_TEXT`].
pub fn entry(seed: u64, index: u64) -> String {
    format!("{}\n{END_OF_TEXT}\n", story(seed, index))
}

fn stories_from(seed: u64, first: u64, bytes: usize) -> String {
    let mut text = String::new();
    for index in first.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&entry(seed, index));
    }
    text
}
