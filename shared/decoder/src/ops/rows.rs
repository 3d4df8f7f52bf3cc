//! Loops that write a result row by row, shared out over the current rayon pool.

use rayon::prelude::*;
use std::ops::Range;

/// Elements from which on sharing out pays: waking the pool's threads costs about as much as computing half of them.
const LARGE: usize = 1 << 16;
/// Pieces per thread, so that one that is held up does not hold up all.
const PIECES: usize = 4;

/// Fills `out`, rows of `width` elements, by `work(range, piece)`, where `piece` is `out[range]` and consists of whole rows.
///
/// `work` must compute every row by itself; then the result does not depend on the number of threads.
pub(super) fn by_rows<T: Send>(out: &mut [T], width: usize, work: impl Fn(Range<usize>, &mut [T]) + Send + Sync) {
    let (threads, elements) = (rayon::current_num_threads(), out.len());
    if threads == 1 || elements < LARGE || width == 0 {
        return work(0..elements, out);
    }
    let piece = (elements / width).div_ceil(threads * PIECES).max(1) * width;
    out.par_chunks_mut(piece).enumerate().for_each(|(index, out)| {
        let start = index * piece;
        work(start..start + out.len(), out);
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_element_is_written_once_with_any_number_of_threads() {
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for (rows, width) in [(1, 70_001), (70_001, 1), (1000, 77), (3, 5), (0, 4), (4, 0)] {
                let mut out = vec![0; rows * width];
                pool.install(|| {
                    by_rows(&mut out, width, |range, piece| {
                        assert_eq!((range.start % width.max(1), piece.len()), (0, range.len()));
                        range.zip(piece).for_each(|(index, value)| *value += index + 1);
                    });
                });
                assert!(out.iter().enumerate().all(|(index, &value)| value == index + 1), "{rows} · {width}");
            }
        }
    }
}
