//! Undoes the order of q's and k's rows that GGUF files of architecture `llama` have.
//!
//! The rotary embedding turns pairs of dimensions. Hugging Face pairs dimension j of a head with j + head_dim/2; `llama` GGUF
//! files pair 2j with 2j + 1, so their rows were permuted when the file was written. In head h, Hugging Face's row
//! (h, c, j) with c in {0, 1} is the file's row (h, j, c).

use std::ops::Range;

/// Where the rows of a permuted weight are in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unpermute {
    /// Rows of one head; even.
    pub(super) head_rows: usize,
    /// Elements of one row.
    pub(super) row: usize,
}

impl Unpermute {
    /// The file's row that is Hugging Face's row `row`.
    pub(super) fn file_row(self, row: usize) -> usize {
        let (head, within) = (row / self.head_rows, row % self.head_rows);
        let (half, pair) = (within / (self.head_rows / 2), within % (self.head_rows / 2));
        head * self.head_rows + 2 * pair + half
    }

    /// Runs of elements, in Hugging Face's order, as runs in the file: at most one row each.
    pub(super) fn runs(self, run: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let rows = run.start / self.row.max(1)..run.end.div_ceil(self.row.max(1));
        rows.map(move |row| {
            let start = run.start.max(row * self.row);
            let end = run.end.min((row + 1) * self.row);
            let moved = self.file_row(row) * self.row;
            moved + start - row * self.row..moved + end - row * self.row
        })
    }
}
