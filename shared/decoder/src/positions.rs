//! Which tokens of which sequences a batch holds.

use crate::error::{Error, Result};
use crate::ops::Visible;
use candle_core::{Device, Tensor};

/// The position in its sequence of every token of a batch.
///
/// Rows may hold unequal numbers of tokens: they are padded on the right. A padded token is computed but nothing ever
/// looks at it, its own query included, so padding changes no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    seq: usize,
    starts: Vec<usize>,
    lengths: Vec<usize>,
}

impl Positions {
    /// Row `r` holds `lengths[r]` tokens from position `starts[r]` on; `seq` is the longest length.
    pub fn new(starts: Vec<usize>, lengths: Vec<usize>) -> Self {
        let seq = lengths.iter().copied().max().unwrap_or(0);
        Self { seq, starts, lengths }
    }

    /// `rows` sequences of `seq` tokens from position 0 on.
    pub fn from_zero(rows: usize, seq: usize) -> Self {
        Self::new(vec![0; rows], vec![seq; rows])
    }

    /// Sequences in the batch.
    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// Tokens per row, padding included.
    pub fn seq(&self) -> usize {
        self.seq
    }

    /// Per row: the position of its first token here, and how many tokens it has here.
    pub fn spans(&self) -> impl Iterator<Item = (usize, usize)> {
        self.starts.iter().copied().zip(self.lengths.iter().copied())
    }

    /// Whether every row is a whole sequence up to its last token.
    pub fn begin_at_zero(&self) -> bool {
        self.starts.iter().all(|&start| start == 0)
    }

    /// Tokens of the longest sequence, those before this batch included.
    pub fn longest(&self) -> usize {
        self.spans().map(|(start, length)| start + length).max().unwrap_or(0)
    }

    /// Position of every token, batch-major, `rows · seq` of them.
    pub fn all(&self) -> Vec<usize> {
        self.starts.iter().flat_map(|&start| start..start + self.seq).collect()
    }

    /// What each query sees of keys that lie at their positions: all before it and itself, at most `window`.
    pub fn visible(&self, window: Option<usize>) -> Visible {
        let ranges = self.spans().flat_map(|(start, length)| {
            (0..self.seq).map(move |index| {
                let end = start + index + 1;
                if index < length { window.map_or(0, |window| end.saturating_sub(window))..end } else { 0..0 }
            })
        });
        Visible::new(self.seq, ranges.collect())
    }
}

/// Token ids with their positions.
#[derive(Clone, Debug)]
pub struct Tokens {
    ids: Tensor,
    positions: Positions,
}

impl Tokens {
    /// One row of ids per sequence, row `r` beginning at position `starts[r]`.
    ///
    /// # Errors
    /// No row, an empty row, or as many starts as rows are not given.
    pub fn new(rows: &[&[u32]], starts: Vec<usize>, device: &Device) -> Result<Self> {
        if rows.is_empty() || rows.iter().any(|row| row.is_empty()) || starts.len() != rows.len() {
            return Err(Error::Setting {
                name: "tokens",
                found: format!("rows of {:?} tokens", rows.iter().map(|row| row.len()).collect::<Vec<_>>()),
                expected: "at least one row, and at least one token in each".into(),
            });
        }
        let positions = Positions::new(starts, rows.iter().map(|row| row.len()).collect());
        let seq = positions.seq();
        let padded = rows.iter().flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0, seq - row.len())));
        let ids = Tensor::from_iter(padded, device)?.reshape((rows.len(), seq))?;
        Ok(Self { ids, positions })
    }

    /// Sequences from their beginning.
    ///
    /// # Errors
    /// See [`Tokens::new`].
    pub fn from_zero(rows: &[&[u32]], device: &Device) -> Result<Self> {
        Self::new(rows, vec![0; rows.len()], device)
    }

    /// Ids `[batch, seq]`, u32, padded with 0.
    pub fn ids(&self) -> &Tensor {
        &self.ids
    }

    /// Their positions.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_sees_itself_and_at_most_its_window_and_padding_sees_nothing() {
        let positions = Positions::new(vec![0, 5], vec![3, 1]);
        let visible = positions.visible(Some(2));
        assert_eq!(visible.row(0), [0..1, 0..2, 1..3]);
        assert_eq!(visible.row(1), [4..6, 0..0, 0..0]);
        assert_eq!(positions.longest(), 6);
        assert_eq!(positions.all(), [0, 1, 2, 5, 6, 7]);
    }
}
