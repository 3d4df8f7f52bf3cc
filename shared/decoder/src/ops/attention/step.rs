//! Attention of a decode step: one query of each head against all keys before it.
//!
//! Keys and values are read once, as they lie, for all query heads of the group. Two matrix products would copy them into
//! packed blocks first, and a dot product per key would spend most of its time adding up its lanes; several keys at a time
//! share that. Alone, with 1024 keys of 64 elements in the cache (nanoseconds per key and query head): dot products one by
//! one 9.2, by eight 4.0; weighted sums one by one 2.5, by four 1.6. In a step of SmolLM2-135M, from context 128 to 4096 one by
//! one adds 24 ms, this 12 ms (`cargo bench --profile dev -p ch1-single-gpu --bench inference`).

use super::loops::softmax;
use crate::ops::matrix::Shape2;
use crate::ops::real::{Real, vectorised};

/// `q [heads, width]` against `keys` and `values` `[keys, width]` of one key head, to `out [heads, width]`, which is zeros.
pub(super) fn one_query<T: Real>(
    q: &[T],
    (keys, shape): (&[T], Shape2),
    (values, values_shape): (&[T], Shape2),
    out: &mut [T],
    scale: T,
) {
    let (count, width) = (shape.rows, shape.columns);
    if count == 0 || width == 0 {
        return;
    }
    let key = |index: usize| &keys[index * shape.row_stride..][..width];
    let value = |index: usize| &values[index * values_shape.row_stride..][..width];
    let mut scores = vec![T::ZERO; q.len() / width * count];
    vectorised(
        #[inline(always)]
        || {
            let heads = || q.chunks_exact(width);
            let (by_eight, by_four) = (count / 8 * 8, count / 4 * 4);
            for first in (0..by_eight).step_by(8) {
                let keys: [&[T]; 8] = std::array::from_fn(|index| key(first + index));
                for (scores, q) in scores.chunks_exact_mut(count).zip(heads()) {
                    scores[first..first + 8].copy_from_slice(&dots(q, keys));
                }
            }
            for index in by_eight..count {
                for (scores, q) in scores.chunks_exact_mut(count).zip(heads()) {
                    [scores[index]] = dots(q, [key(index)]);
                }
            }
            for scores in scores.chunks_exact_mut(count) {
                scores.iter_mut().for_each(|score| *score *= scale);
                softmax(scores);
            }
            for first in (0..by_four).step_by(4) {
                let values: [&[T]; 4] = std::array::from_fn(|index| value(first + index));
                for (p, out) in scores.chunks_exact(count).zip(out.chunks_exact_mut(width)) {
                    add_weighted(&p[first..first + 4], values, out);
                }
            }
            for index in by_four..count {
                for (p, out) in scores.chunks_exact(count).zip(out.chunks_exact_mut(width)) {
                    out.iter_mut().zip(value(index)).for_each(|(out, &value)| *out += p[index] * value);
                }
            }
        },
    );
}

/// `q · key` for several keys; the sum over a key is in the same order however many there are.
#[inline(always)]
fn dots<T: Real, const KEYS: usize>(q: &[T], keys: [&[T]; KEYS]) -> [T; KEYS] {
    const LANES: usize = 8;
    let mut sums = [[T::ZERO; LANES]; KEYS];
    for (sums, key) in sums.iter_mut().zip(keys) {
        for (q, key) in q.chunks_exact(LANES).zip(key.chunks_exact(LANES)) {
            for lane in 0..LANES {
                sums[lane] += q[lane] * key[lane];
            }
        }
    }
    let rest = q.len() / LANES * LANES;
    std::array::from_fn(|index| {
        let [a, b, c, d, e, f, g, h] = sums[index];
        let mut total = ((a + e) + (b + f)) + ((c + g) + (d + h));
        for (&q, &key) in q[rest..].iter().zip(&keys[index][rest..]) {
            total += q * key;
        }
        total
    })
}

/// `out += Σ p · value` over four values.
#[inline(always)]
fn add_weighted<T: Real>(p: &[T], [a, b, c, d]: [&[T]; 4], out: &mut [T]) {
    let (pa, pb, pc, pd) = (p[0], p[1], p[2], p[3]);
    for ((((out, &a), &b), &c), &d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *out += (pa * a + pb * b) + (pc * c + pd * d);
    }
}
