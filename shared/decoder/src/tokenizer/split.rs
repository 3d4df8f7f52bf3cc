//! How each family of byte-level BPE cuts a text before merging.
//!
//! A GGUF file has tokens and merges, but of the cutting only a name, `tokenizer.ggml.pre`. The rules behind the
//! names are those of the families' own `tokenizer.json` files; `default` is what llama.cpp does under that name. A
//! wrong rule gives wrong ids in silence, so a name that is not here is an error.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use super::problem;
use crate::Result;

/// What a family does with a text before byte-pair merging.
pub(super) struct Family {
    /// Unicode normalisation.
    pub(super) normalizer: Option<NormalizerWrapper>,
    /// Cutting into words, and bytes into visible characters.
    pub(super) pre_tokenizer: PreTokenizerWrapper,
    /// A word that is a token as a whole is not merged from its parts.
    pub(super) ignore_merges: bool,
    /// Whether bos is put in front when the file does not say.
    pub(super) adds_bos: bool,
}

/// Words of GPT-2: contractions, letters, digits, other marks (each with one leading space), spaces.
const GPT2_WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Words since GPT-4, with at most `digits` digits together: contractions in any case, a mark may lead a word, marks
/// take line ends along.
fn newer_words(digits: &str) -> String {
    let before = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}";
    let after = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    format!("{before}{digits}{after}")
}

/// The family behind a value of `tokenizer.ggml.pre`.
pub(super) fn family(name: &str) -> Result<Family> {
    let plain = |pre_tokenizer| Family { normalizer: None, pre_tokenizer, ignore_merges: false, adds_bos: false };
    Ok(match name {
        "gpt-2" => plain(gpt2_bytes().into()),
        "smollm" | "starcoder" | "refact" => {
            plain(Sequence::new(vec![Digits::new(true).into(), gpt2_bytes().into()]).into())
        }
        "qwen2" => Family { normalizer: Some(NFC.into()), ..plain(cut(&[&newer_words("")])?) },
        "llama-bpe" | "llama3" | "llama-v3" => {
            Family { ignore_merges: true, adds_bos: true, ..plain(cut(&[&newer_words("{1,3}")])?) }
        }
        "default" => plain(cut(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2_WORDS, r"\p{N}+", "[0-9][0-9][0-9]"])?),
        other => {
            return Err(problem(format!(
                "tokenizer.ggml.pre = {other:?}: this family's rules are not known here (known: default, gpt-2, \
                 llama-bpe, qwen2, refact, smollm, starcoder); give its tokenizer.json"
            )));
        }
    })
}

/// GPT-2's words, bytes as visible characters, no space put in front.
fn gpt2_bytes() -> ByteLevel {
    ByteLevel::new(false, true, true)
}

/// Cuts at every match of each pattern in turn, then shows bytes as visible characters.
fn cut(patterns: &[&str]) -> Result<PreTokenizerWrapper> {
    let split = |pattern: &&str| {
        let pattern = SplitPattern::Regex((*pattern).to_owned());
        Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map(Into::into).map_err(problem)
    };
    let mut steps: Vec<PreTokenizerWrapper> = patterns.iter().map(split).collect::<Result<_>>()?;
    steps.push(ByteLevel::new(false, true, false).into());
    Ok(Sequence::new(steps).into())
}
