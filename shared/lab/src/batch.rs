//! A few sequences of token ids, and what should follow each token.

use crate::{Error, Result};
use candle_core::Device;
use decoder::ops::IGNORED;
use decoder::{Config, Tokens};
use std::ops::Range;

/// Sequences of any lengths that belong to one model: every id is in its vocabulary, every length within its context, and there is
/// at least one token to predict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    sequences: Vec<Vec<u32>>,
}

impl Batch {
    /// Checks `sequences`, which came from the flag `flag`.
    ///
    /// # Errors
    /// No sequence, an empty one, an id outside of the vocabulary, a sequence longer than the context, nothing to predict.
    pub fn new(flag: &'static str, sequences: Vec<Vec<u32>>, config: &Config) -> Result<Self> {
        let refuse = |found: String, expected: String| Err(Error::Flag { flag, found, expected });
        if sequences.is_empty() {
            return refuse("without a sequence".into(), "give at least one".into());
        }
        if let Some(row) = sequences.iter().position(Vec::is_empty) {
            return refuse(format!("sequence {row} (from 0)"), "it has no tokens; give at least one".into());
        }
        let outside = |&&id: &&u32| id as usize >= config.vocab;
        if let Some(id) = sequences.iter().flatten().find(outside) {
            let last = config.vocab - 1;
            return refuse(format!("id {id}"), format!("the model's vocabulary has ids from 0 to {last}"));
        }
        let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
        if longest > config.context {
            let expected = format!("the model's context is {} tokens; give less", config.context);
            return refuse(format!("of {longest} tokens"), expected);
        }
        if longest < 2 {
            return refuse(
                "of one token each".into(),
                "nothing follows that could be predicted; give a sequence of at least two tokens".into(),
            );
        }
        Ok(Self { sequences })
    }

    /// The sequences.
    pub fn sequences(&self) -> &[Vec<u32>] {
        &self.sequences
    }

    /// Some of the sequences: a rank's part. It may be empty, or predict nothing.
    ///
    /// # Errors
    /// `rows` is not a range of the sequences.
    pub fn rows(&self, rows: Range<usize>) -> Result<Self> {
        let sequences = self.sequences.get(rows.clone()).ok_or_else(|| decoder::Error::Setting {
            name: "rows",
            found: format!("{rows:?}"),
            expected: format!("a range in 0..{}", self.sequences.len()),
        })?;
        Ok(Self { sequences: sequences.to_vec() })
    }

    /// The sequences that predict something: those of two tokens or more.
    #[must_use]
    pub fn predicting(&self) -> Self {
        Self { sequences: self.sequences.iter().filter(|ids| ids.len() > 1).cloned().collect() }
    }

    /// Tokens that are predicted: all but the first of each sequence.
    pub fn targets(&self) -> usize {
        self.sequences.iter().map(|ids| ids.len().saturating_sub(1)).sum()
    }

    /// All tokens, padded on the right.
    ///
    /// # Errors
    /// The device has no room.
    pub fn tokens(&self, device: &Device) -> Result<Tokens> {
        let rows: Vec<&[u32]> = self.sequences.iter().map(Vec::as_slice).collect();
        Ok(Tokens::from_zero(&rows, device)?)
    }

    /// For a loss: all tokens but the last of each sequence, and for each of them (batch-major, padding included) the one that
    /// follows, [`IGNORED`] behind a sequence's end. Sequences of one token predict nothing and are left out.
    ///
    /// # Errors
    /// The device has no room.
    pub fn inputs_and_targets(&self, device: &Device) -> Result<(Tokens, Vec<u32>)> {
        let rows: Vec<(&[u32], &[u32])> =
            self.sequences.iter().filter(|ids| ids.len() > 1).map(|ids| (&ids[..ids.len() - 1], &ids[1..])).collect();
        let longest = rows.iter().map(|(inputs, _)| inputs.len()).max().unwrap_or(0);
        let padded = |targets: &[u32]| {
            let padding = std::iter::repeat_n(IGNORED, longest - targets.len());
            targets.iter().copied().chain(padding).collect::<Vec<_>>()
        };
        let targets = rows.iter().flat_map(|(_, targets)| padded(targets)).collect();
        let inputs: Vec<&[u32]> = rows.iter().map(|(inputs, _)| *inputs).collect();
        Ok((Tokens::from_zero(&inputs, device)?, targets))
    }
}
