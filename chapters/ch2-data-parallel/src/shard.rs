//! Which rows of the batch a rank computes.

use std::ops::Range;

/// The rows of rank `rank`, out of `rows` rows on `ranks` ranks: consecutive, every row on exactly one rank, and no rank with more than
/// one row above another. The first `rows % ranks` ranks have one row more.
///
/// ```
/// let parts: Vec<_> = (0..3).map(|rank| ch2_data_parallel::shard::rows_of_rank(8, 3, rank)).collect();
/// assert_eq!(parts, [0..3, 3..6, 6..8]);
/// ```
pub fn rows_of_rank(rows: usize, ranks: usize, rank: usize) -> Range<usize> {
    collective::chunk(rows, ranks, rank)
}
