//! Which keys each query may see: the causal mask as ranges.

use std::ops::Range;

/// For every query of a batch, the contiguous range of keys that it sees.
///
/// A causal mask, a sliding window and padding are all of this form: query at position `p` sees keys
/// `max(0, p + 1 − window) .. p + 1`; a padded query sees none and its result is zeros. Ranges need no memory of
/// `queries × keys`, and whole blocks of keys outside of them are never computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    queries: usize,
    ranges: Vec<Range<usize>>,
}

impl Visible {
    /// `ranges` row by row: those of row 0's `queries` queries first. `ranges.len()` is a multiple of `queries`.
    pub fn new(queries: usize, ranges: Vec<Range<usize>>) -> Self {
        Self { queries, ranges }
    }

    /// `rows` sequences of `length` tokens that begin at position 0, without padding or window.
    pub fn causal(rows: usize, length: usize) -> Self {
        Self::new(length, (0..rows).flat_map(|_| (0..length).map(|query| 0..query + 1)).collect())
    }

    /// Queries per row.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.ranges.len().checked_div(self.queries).unwrap_or(0)
    }

    /// The ranges of one row's queries.
    pub fn row(&self, row: usize) -> &[Range<usize>] {
        &self.ranges[row * self.queries..(row + 1) * self.queries]
    }

    /// One past the last key that any query sees.
    pub fn end(&self) -> usize {
        self.ranges.iter().map(|range| range.end).max().unwrap_or(0)
    }

    /// Pairs of a query and a key that it sees, over all rows: what attention has to compute per head.
    pub fn pairs(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).sum()
    }
}
