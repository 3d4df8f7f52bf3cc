//! Cutting a length into one part per rank: base + remainder.

use std::ops::Range;

/// Part `index` of `length` elements cut into `parts`: every part has `length / parts` elements, the first `length %
/// parts` have one more. Parts may be empty; together they are the whole, in order.
///
/// ```
/// let parts: Vec<_> = (0..4).map(|rank| collective::chunk(10, 4, rank)).collect();
/// assert_eq!(parts, [0..3, 3..6, 6..8, 8..10]);
/// ```
pub fn chunk(length: usize, parts: usize, index: usize) -> Range<usize> {
    let parts = parts.max(1);
    let (base, remainder) = (length / parts, length % parts);
    let start = |index: usize| index.min(parts) * base + index.min(remainder);
    start(index)..start(index + 1)
}

/// All parts of `length` elements cut into `parts`, in order. See [`chunk`].
pub fn chunks(length: usize, parts: usize) -> Vec<Range<usize>> {
    (0..parts).map(|index| chunk(length, parts, index)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn parts_are_the_whole_in_order_and_differ_by_at_most_one_element() {
        for length in (0..40).chain([1000, 100_003]) {
            for parts in 1..10 {
                let all = chunks(length, parts);
                assert_eq!(all.iter().cloned().flatten().collect::<Vec<_>>(), (0..length).collect::<Vec<_>>());
                let sizes: Vec<_> = all.iter().map(ExactSizeIterator::len).collect();
                assert!(
                    sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                    "{length} / {parts}: {sizes:?}"
                );
                assert!(sizes.is_sorted_by(|a, b| a >= b), "the longer parts come first: {sizes:?}");
            }
        }
    }
}
