//! Which tokens a rank gets.

use collective::chunk;
use std::ops::Range;

/// Chunks `rank` and `2·ranks − 1 − rank` of `length` tokens cut into `2·ranks` chunks.
///
/// A token at position p attends to p + 1 keys. Consecutive chunks would give the last rank almost twice the work of the mean; the first
/// and the last chunk together have as much as any other such pair.
pub fn chunks_of_rank(length: usize, ranks: usize, rank: usize) -> [Range<usize>; 2] {
    let chunks = 2 * ranks;
    [chunk(length, chunks, rank), chunk(length, chunks, chunks - 1 - rank)]
}

/// Pairs of a query in `chunks` and a key that it sees: what attention has to compute on a rank, per head.
pub fn pairs(chunks: &[Range<usize>]) -> u64 {
    let up_to = |n: usize| n as u64 * (n as u64 + 1) / 2;
    chunks.iter().map(|range| up_to(range.end) - up_to(range.start)).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_token_is_on_one_rank_and_all_have_the_same_work() {
        for ranks in [1, 2, 3, 4, 8] {
            for length in [2 * ranks, 2 * ranks + 1, 1000, 32_768] {
                let all: Vec<_> = (0..ranks).map(|rank| chunks_of_rank(length, ranks, rank)).collect();
                let mut tokens: Vec<usize> = all.iter().flatten().cloned().flatten().collect();
                tokens.sort_unstable();
                assert_eq!(tokens, (0..length).collect::<Vec<_>>());
                if length.is_multiple_of(2 * ranks) {
                    let work: Vec<_> = all.iter().map(|chunks| pairs(chunks)).collect();
                    assert!(work.iter().all(|pairs| *pairs == work[0]), "{ranks} ranks, {length} tokens: {work:?}");
                }
            }
        }
        assert_eq!(pairs(std::slice::from_ref(&(0..4))), 1 + 2 + 3 + 4);
    }
}
