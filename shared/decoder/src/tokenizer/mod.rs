//! Text to token ids and back.
//!
//! [`Tokenizer`] wraps the `tokenizers` crate: read from a `tokenizer.json` (checked first in `json`, since the crate
//! panics on some broken files and reads others as something else), or rebuilt from the metadata of a GGUF file
//! (`gguf`, with the text splitting of each model family in `split`). [`Stream`] turns ids into text while they are
//! generated.

mod bytes;
mod gguf;
mod json;
mod split;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::quantized::gguf_file::Value as GgufValue;
use tokenizers::{Decoder as _, DecoderWrapper, Model as _};

pub use stream::Stream;

use crate::{Error, Result};

/// A vocabulary with its rules: which ids a text has, and which text ids have.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// What special ids stand for; in the order of the ids, for messages.
    special: BTreeMap<u32, String>,
    /// One more than the largest id.
    vocab_size: usize,
    bos: Option<u32>,
    adds_bos: bool,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    pub fn from_file(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        Self::from_bytes(&bytes).map_err(|error| match error {
            Error::Tokenizer { problem } => Error::Tokenizer { problem: format!("{}: {problem}", path.display()) },
            other => other,
        })
    }

    /// Reads the contents of a `tokenizer.json`.
    ///
    /// Padding and truncation settings in it are for training batches and are ignored: a text always has the same ids.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let checked = json::check(bytes)?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(problem)?;
        inner.with_truncation(None).map_err(problem)?;
        inner.with_padding(None);
        for (token, expected) in checked.added {
            // The crate gives added tokens the next free id, whatever the file says.
            let found = inner.token_to_id(&token);
            if found != Some(expected) {
                let found = found.map_or("none".to_owned(), |id| id.to_string());
                return Err(problem(format!(
                    "the added token {token:?} has id {expected}, but its place gives it {found}"
                )));
            }
        }
        Ok(Self::new(inner, checked.bos, None))
    }

    /// Rebuilds the tokenizer of a GGUF file from its metadata (`tokenizer.ggml.…`).
    ///
    /// Byte-level BPE (`gpt2`) of the families whose text splitting is known exactly; anything else is an error that
    /// asks for a `tokenizer.json`.
    pub fn from_gguf(metadata: &HashMap<String, GgufValue>) -> Result<Self> {
        let rebuilt = gguf::rebuild(metadata)?;
        Ok(Self::new(rebuilt.tokenizer, rebuilt.added_bos, rebuilt.bos))
    }

    /// `added_bos` is what the post-processor puts in front; `bos` what is declared apart from that.
    fn new(inner: tokenizers::Tokenizer, added_bos: Option<u32>, bos: Option<u32>) -> Self {
        let special = inner.get_added_tokens_decoder();
        let special = special.into_iter().filter(|(_, token)| token.special).map(|(id, token)| (id, token.content));
        let largest = inner.get_vocab(true).into_values().max();
        Self {
            special: special.collect(),
            vocab_size: largest.map_or(0, |id| id as usize + 1),
            bos: added_bos.or(bos),
            adds_bos: added_bos.is_some(),
            inner,
        }
    }

    /// The ids of a text. Special tokens written in the text are recognised.
    ///
    /// With `add_special` what the model expects around a text is added, most often a bos token in front; where the
    /// text begins with bos itself, no second one is put before it.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, add_special).map_err(problem)?;
        let ids = encoding.get_ids();
        let doubled = add_special && self.adds_bos && ids.len() > 1 && ids[..2].iter().all(|&id| Some(id) == self.bos);
        Ok(ids[usize::from(doubled)..].to_vec())
    }

    /// The text of a sequence of ids. Ids without a token (models often have a few more rows than their tokenizer has
    /// tokens) add nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        self.join(ids.iter().filter_map(|&id| self.piece(id, skip_special)).collect())
    }

    /// How an id is written in the vocabulary, `None` if it is not there.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Whether the id is a control token (`<s>`, `<|im_end|>`), not text.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains_key(&id)
    }

    /// The token that begins a text: the one that `encode` adds, or that the GGUF file declares. A `tokenizer.json`
    /// that adds none does not say which it would be.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Whether `encode` puts [`Self::bos`] in front of a text.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Refuses a tokenizer that has ids from `vocab` up, for which the model has no row; special ones are named first.
    pub fn check_vocab(&self, vocab: usize) -> Result<()> {
        let beyond = (vocab as u64..self.vocab_size as u64).filter_map(|id| u32::try_from(id).ok());
        let mut beyond: Vec<_> = beyond.filter_map(|id| Some((!self.is_special(id), id, self.token(id)?))).collect();
        if beyond.is_empty() {
            return Ok(());
        }
        beyond.sort_unstable();
        let names: Vec<_> = beyond.iter().take(5).map(|(_, id, token)| format!("{token:?} = {id}")).collect();
        let more = if beyond.len() > names.len() {
            format!(" and {} more", beyond.len() - names.len())
        } else {
            String::new()
        };
        Err(problem(format!(
            "the model has {vocab} tokens, but the tokenizer also has {}{more}: it belongs to another model",
            names.join(", ")
        )))
    }

    /// A decoder for ids that arrive one by one.
    pub fn stream(&self, skip_special: bool) -> Stream<'_> {
        Stream::new(self, skip_special)
    }

    /// What the decoder gets for an id; `None` for what leaves no trace in the text.
    fn piece(&self, id: u32, skip_special: bool) -> Option<String> {
        if skip_special && self.is_special(id) {
            return None;
        }
        let added = self.inner.get_added_vocabulary().simple_id_to_token(id);
        added.or_else(|| self.inner.get_model().id_to_token(id))
    }

    /// The decoder's text of a sequence of pieces; joined by spaces if there is no decoder.
    fn join(&self, pieces: Vec<String>) -> Result<String> {
        match self.decoder() {
            // Some decoders of the crate panic on an empty sequence.
            _ if pieces.is_empty() => Ok(String::new()),
            Some(decoder) => decoder.decode(pieces).map_err(problem),
            None => Ok(pieces.join(" ")),
        }
    }

    fn decoder(&self) -> Option<&DecoderWrapper> {
        self.inner.get_decoder()
    }
}

/// An error of this module.
fn problem(problem: impl ToString) -> Error {
    Error::Tokenizer { problem: problem.to_string() }
}
