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

/// Ends a story. One token, both `bos` and `eos` of the bundled model.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// Held-out stories are counted from here; a training corpus never gets that far.
const FIRST_HELD_OUT: u64 = 1 << 40;

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

fn stories_from(seed: u64, first: u64, bytes: usize) -> String {
    let mut text = String::new();
    for index in first.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&story(seed, index));
        text.push('\n');
        text.push_str(END_OF_TEXT);
        text.push('\n');
    }
    text
}
