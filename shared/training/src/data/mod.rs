//! Which tokens each step trains on.
//!
//! A corpus is one long row of token ids, cut into windows of `seq` predictions. A batch is a pure function of (seed, step): no
//! iterator has to be saved, and every rank computes its own rows of the *global* batch without asking another. An epoch visits every
//! window once, in an order of its own.

mod permutation;
#[cfg(test)]
mod tests;

use crate::{Error, Result};
use permutation::{Permutation, mix};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A target that does not count, in the loss or in its gradient (padding, a prompt that is not to be learnt).
pub const IGNORED: u32 = u32::MAX;

/// The token ids of a corpus.
#[derive(Clone, Debug)]
pub struct TokenData {
    ids: Ids,
}

/// Two bytes per token where the vocabulary allows it.
#[derive(Clone, Debug)]
enum Ids {
    U16(Vec<u16>),
    U32(Vec<u32>),
}

impl TokenData {
    /// From ids of a vocabulary of `vocab` entries.
    ///
    /// # Errors
    /// An id is not in the vocabulary: the corpus was tokenized for another model.
    pub fn new(ids: Vec<u32>, vocab: usize) -> Result<Self> {
        if let Some((at, id)) = ids.iter().enumerate().find(|&(_, &id)| id as usize >= vocab || id == IGNORED) {
            let problem =
                format!("token {at} has id {id}, the vocabulary has {vocab} entries: use the model's own tokenizer");
            return Err(Error::Corpus { problem });
        }
        let narrow = ids.iter().map(|&id| u16::try_from(id)).collect::<std::result::Result<Vec<_>, _>>();
        Ok(Self { ids: narrow.map_or(Ids::U32(ids), Ids::U16) })
    }

    /// From a text file, through the tokenizer's `encode`.
    ///
    /// # Errors
    /// The file cannot be read or is not UTF-8, it cannot be tokenized, or an id is not in the vocabulary.
    pub fn from_text_file<E: std::fmt::Display>(
        path: &Path,
        vocab: usize,
        encode: impl FnOnce(&str) -> Result<Vec<u32>, E>,
    ) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        let ids = encode(&text).map_err(|error| Error::Corpus { problem: format!("{}: {error}", path.display()) })?;
        Self::new(ids, vocab)
    }

    /// Tokens.
    pub fn len(&self) -> usize {
        match &self.ids {
            Ids::U16(ids) => ids.len(),
            Ids::U32(ids) => ids.len(),
        }
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the ids take.
    pub fn bytes(&self) -> usize {
        match &self.ids {
            Ids::U16(ids) => size_of_val(ids.as_slice()),
            Ids::U32(ids) => size_of_val(ids.as_slice()),
        }
    }

    /// SHA-256 of the ids, four bytes each: tells two corpora apart.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        match &self.ids {
            Ids::U16(ids) => ids.iter().for_each(|&id| hash.update(u32::from(id).to_le_bytes())),
            Ids::U32(ids) => ids.iter().for_each(|id| hash.update(id.to_le_bytes())),
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn extend(&self, into: &mut Vec<u32>, range: Range<usize>) {
        match &self.ids {
            Ids::U16(ids) => into.extend(ids[range].iter().map(|&id| u32::from(id))),
            Ids::U32(ids) => into.extend(&ids[range]),
        }
    }
}

/// Rows of a batch, row after row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Input ids `[rows, seq]`.
    pub inputs: Vec<u32>,
    /// What is to be predicted at each input, `[rows, seq]`: the next token, or [`IGNORED`].
    pub targets: Vec<u32>,
    /// Sequences.
    pub rows: usize,
    /// Tokens of a sequence.
    pub seq: usize,
}

impl Batch {
    /// Targets that count.
    pub fn count(&self) -> usize {
        self.targets.iter().filter(|&&target| target != IGNORED).count()
    }
}

/// The batches of a run.
#[derive(Clone, Debug)]
pub struct Batches {
    data: Arc<TokenData>,
    seed: u64,
    rows: usize,
    seq: usize,
    windows: u64,
}

impl Batches {
    /// Global batches of `rows` sequences of `seq` tokens.
    ///
    /// Windows do not overlap in what they predict; each reads one token more than it predicts, the first input of the next window being
    /// the last target of this one. The end of the corpus that does not fill a window is not used.
    ///
    /// # Errors
    /// `rows` or `seq` is 0, or the corpus is shorter than one window of `seq` + 1 tokens.
    pub fn new(data: Arc<TokenData>, seed: u64, rows: usize, seq: usize) -> Result<Self> {
        for (name, size) in [("batch", rows), ("sequence length", seq)] {
            if size == 0 {
                return Err(Error::setting(name, size, "at least 1"));
            }
        }
        let windows = (data.len().saturating_sub(1) / seq) as u64;
        if windows == 0 {
            let problem = format!(
                "{} tokens are shorter than one sequence, which takes {seq} + 1; shorten the sequence or use a longer text",
                data.len()
            );
            return Err(Error::Corpus { problem });
        }
        Ok(Self { data, seed, rows, seq, windows })
    }

    /// Seed of the order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Rows of the global batch.
    pub fn rows_per_step(&self) -> usize {
        self.rows
    }

    /// Windows of one epoch.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Rows drawn before `step`: the data position of a checkpoint.
    pub fn position(&self, step: u64) -> u64 {
        step.saturating_mul(self.rows as u64)
    }

    /// The global batch of `step`, counted from 0.
    pub fn batch(&self, step: u64) -> Batch {
        self.read(step, 0..self.rows)
    }

    /// Some rows of the global batch of `step`: a rank's part, or a micro-batch.
    ///
    /// # Errors
    /// `rows` is not a range of the global batch's rows.
    pub fn rows(&self, step: u64, rows: Range<usize>) -> Result<Batch> {
        if rows.start > rows.end || rows.end > self.rows {
            return Err(Error::setting("rows", format!("{rows:?}"), format!("a range in 0..{}", self.rows)));
        }
        Ok(self.read(step, rows))
    }

    fn read(&self, step: u64, rows: Range<usize>) -> Batch {
        let size = rows.len() * self.seq;
        let (mut inputs, mut targets) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for row in rows.clone() {
            let start = self.window(self.position(step).saturating_add(row as u64)) as usize * self.seq;
            self.data.extend(&mut inputs, start..start + self.seq);
            self.data.extend(&mut targets, start + 1..start + self.seq + 1);
        }
        Batch { inputs, targets, rows: rows.len(), seq: self.seq }
    }

    /// Window of a position in the endless sequence of shuffled epochs. A batch may reach from one epoch into the next.
    fn window(&self, position: u64) -> u64 {
        let (epoch, index) = (position / self.windows, position % self.windows);
        Permutation::new(self.windows, mix(self.seed) ^ mix(!epoch)).at(index)
    }
}
