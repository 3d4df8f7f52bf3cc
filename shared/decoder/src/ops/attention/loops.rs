//! Attention on CPU, block by block.
//!
//! The unit of work is some query heads that share one key head, in one row of the batch; [`Units`] says how many. Units are
//! shared out over the current rayon pool and never share memory. A [`Block`] is some queries of one head in prefill and
//! training. A decode step has one query per head and goes its own way (`step`).

use super::Sizes;
use super::blocks::{Block, Keys, Unit, Units, blocks, out_blocks};
use super::step::one_query;
use crate::ops::matrix::{Shape2, multiply};
use crate::ops::real::{Elements, Real, largest, sum_over, vectorised};
use crate::ops::visible::Visible;
use candle_core::{Device, Result, Tensor};
use std::ops::Range;

/// `scores ← normalise(scale · q·kᵀ)` over each query's visible keys, zeros elsewhere. `normalise(query, scores)` hears of the block's
/// queries from 0 on, and is usually the [`softmax`].
#[inline(always)]
fn probabilities<T: Real>(
    block: &Block<'_>,
    q: (&[T], Shape2),
    k: (&[T], Shape2),
    scores: &mut Vec<T>,
    scale: T,
    mut normalise: impl FnMut(usize, &mut [T]),
) {
    let shape = block.scores();
    // What was there before is overwritten.
    scores.resize(shape.rows * shape.columns, T::ZERO);
    multiply((scores, shape), q, (k.0, k.1.transposed()), T::ZERO, scale);
    vectorised(
        #[inline(always)]
        || {
            let rows = scores.chunks_exact_mut(shape.columns.max(1)).zip(&block.visible);
            for (query, (scores, range)) in rows.enumerate() {
                let (from, to) = if range.is_empty() {
                    (0, 0)
                } else {
                    (range.start - block.keys.start, range.end - block.keys.start)
                };
                scores[..from].fill(T::ZERO);
                scores[to..].fill(T::ZERO);
                normalise(query, &mut scores[from..to]);
            }
        },
    );
}

/// Returns the logarithm of the sum of exponentials: [`Real::LOWEST`] of no scores.
#[inline(always)]
pub(super) fn softmax<T: Real>(scores: &mut [T]) -> T {
    let largest = largest(scores);
    for score in scores.iter_mut() {
        *score = Real::exp(*score - largest);
    }
    let sum = sum_over(scores, scores, |a, _| a);
    let inverse = T::ONE / sum;
    for score in scores.iter_mut() {
        *score *= inverse;
    }
    if scores.is_empty() { T::LOWEST } else { largest + Real::ln(sum) }
}

/// See [`super::attention`].
pub(super) fn forward_loop<T: Real>(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    visible: &Visible,
    s: Sizes,
    scale: f64,
) -> Result<Tensor> {
    // A decode step reads its keys once for all heads of the group.
    let step = s.queries == 1;
    let (units, results) = forward_units::<T>([q, k, v], visible, s, scale, step)?;
    let out: Vec<_> = results.into_iter().map(|(out, _)| out).collect();
    Tensor::from_vec(units.by_token(&out), (s.batch, s.queries, s.heads, s.width), &Device::Cpu)
}

/// The same, and per query and head the logarithm of its sum of exponentials, `[batch, seq, heads]`.
pub(super) fn forward_with_sums_loop<T: Real>(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    visible: &Visible,
    s: Sizes,
    scale: f64,
) -> Result<(Tensor, Tensor)> {
    let (units, results) = forward_units::<T>([q, k, v], visible, s, scale, false)?;
    let (out, sums): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let one_each = Units { s: Sizes { width: 1, ..s }, heads: units.heads };
    let out = Tensor::from_vec(units.by_token(&out), (s.batch, s.queries, s.heads, s.width), &Device::Cpu)?;
    Ok((out, Tensor::from_vec(one_each.by_token(&sums), (s.batch, s.queries, s.heads), &Device::Cpu)?))
}

/// Per unit its output `[heads, seq, width]` and its logarithms `[heads, seq]`, the latter without meaning for a `step`.
type Forwarded<T> = Vec<(Vec<T>, Vec<T>)>;

fn forward_units<T: Real>(
    [q, k, v]: [&Tensor; 3],
    visible: &Visible,
    s: Sizes,
    scale: f64,
    step: bool,
) -> Result<(Units, Forwarded<T>)> {
    let elements = Elements::<T>::of(q)?;
    let q: &[T] = &elements;
    let ((k_storage, k_layout), (v_storage, v_layout)) = (k.storage_and_layout(), v.storage_and_layout());
    let (k, v) = (Keys::<T>::of(&k_storage, k_layout)?, Keys::<T>::of(&v_storage, v_layout)?);
    let scale = T::from_f64(scale);
    // One head per unit shares the work out evenly.
    let units = Units { s, heads: if step { s.group() } else { 1 } };
    let work = |unit: Unit| {
        let mut out = vec![T::ZERO; unit.heads * s.queries * s.width];
        let mut sums = vec![T::LOWEST; unit.heads * s.queries];
        let key_rows = |range: &Range<usize>| k.rows(unit.row, unit.key_head, range, s.width);
        let value_rows = |range: &Range<usize>| v.rows(unit.row, unit.key_head, range, s.width);
        if let ([range], true) = (visible.row(unit.row), step) {
            let start = (unit.row * s.heads + unit.first_head) * s.width;
            let q = &q[start..start + unit.heads * s.width];
            one_query(q, key_rows(range), value_rows(range), &mut out, scale);
            return (out, sums);
        }
        let mut scores = Vec::new();
        let pieces = out_blocks(&mut out, s).into_iter().zip(out_blocks(&mut sums, Sizes { width: 1, ..s }));
        for (block, (out, sums)) in blocks(visible, s, unit).iter().zip(pieces) {
            if block.keys.is_empty() {
                continue;
            }
            let q = (&q[block.start..], block.shape(s.width));
            probabilities(
                block,
                q,
                key_rows(&block.keys),
                &mut scores,
                scale,
                #[inline(always)]
                |query, scores| sums[query] = softmax(scores),
            );
            let dense = Shape2::rows(block.visible.len(), s.width, s.width);
            multiply((out, dense), (&scores, block.scores()), value_rows(&block.keys), T::ZERO, T::ONE);
        }
        (out, sums)
    };
    let _kind = ledger::scope(ledger::Kind::Workspace);
    let results = units.run(visible.pairs(), work);
    Ok((units, results))
}

/// Gradients of one unit: of its query heads `[group, seq, width]`, its keys and its values `[keys, width]`.
struct UnitGradients<T> {
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
}

/// Gradients of q, k and v, the scores computed again block by block. With `sums`, the logarithms of all sums of exponentials, the keys are
/// a part of those that `out` was computed from.
pub(super) fn backward_loop<T: Real>(
    [q, k, v]: [&Tensor; 3],
    (out, sums): (&Tensor, Option<&Tensor>),
    dy: &Tensor,
    visible: &Visible,
    s: Sizes,
    scale: f64,
) -> Result<[Tensor; 3]> {
    let (q, out, dy) = (Elements::<T>::of(q)?, Elements::<T>::of(out)?, Elements::<T>::of(dy)?);
    let (q, out, dy): (&[T], &[T], &[T]) = (&q, &out, &dy);
    let sums = sums.map(Elements::<T>::of).transpose()?;
    let ((k_storage, k_layout), (v_storage, v_layout)) = (k.storage_and_layout(), v.storage_and_layout());
    let (k, v) = (Keys::<T>::of(&k_storage, k_layout)?, Keys::<T>::of(&v_storage, v_layout)?);
    let scale = T::from_f64(scale);
    // All heads of a group add to the gradients of their keys, one after the other.
    let units = Units { s, heads: s.group() };
    let work = |unit: Unit| {
        let empty = |rows: usize| vec![T::ZERO; rows * s.width];
        let mut gradients = UnitGradients { q: empty(s.group() * s.queries), k: empty(s.keys), v: empty(s.keys) };
        let (mut p, mut dp) = (Vec::new(), Vec::new());
        for (block, dq) in blocks(visible, s, unit).iter().zip(out_blocks(&mut gradients.q, s)) {
            if block.keys.is_empty() {
                continue;
            }
            let shape = block.shape(s.width);
            let [k, v] = [&k, &v].map(|keys| keys.rows(unit.row, unit.key_head, &block.keys, s.width));
            let (q, out, dy) = (&q[block.start..], &out[block.start..], &dy[block.start..]);
            match &sums {
                None => probabilities(
                    block,
                    (q, shape),
                    k,
                    &mut p,
                    scale,
                    #[inline(always)]
                    |_, scores| {
                        softmax(scores);
                    },
                ),
                Some(sums) => probabilities(
                    block,
                    (q, shape),
                    k,
                    &mut p,
                    scale,
                    #[inline(always)]
                    |query, scores| {
                        let sum = sums[(block.start + query * block.stride) / s.width];
                        scores.iter_mut().for_each(|score| *score = Real::exp(*score - sum));
                    },
                ),
            }
            score_gradients(block, (out, dy), s.width, v, &p, &mut dp, scale);
            let touched = block.keys.start * s.width..block.keys.end * s.width;
            let dense_keys = Shape2::rows(block.keys.len(), s.width, s.width);
            let scores = block.scores();
            multiply(
                (&mut gradients.v[touched.clone()], dense_keys),
                (&p, scores.transposed()),
                (dy, shape),
                T::ONE,
                T::ONE,
            );
            multiply((dq, Shape2::rows(scores.rows, s.width, s.width)), (&dp, scores), k, T::ZERO, T::ONE);
            multiply((&mut gradients.k[touched], dense_keys), (&dp, scores.transposed()), (q, shape), T::ONE, T::ONE);
        }
        gradients
    };
    let results = {
        let _kind = ledger::scope(ledger::Kind::Workspace);
        units.run(3 * visible.pairs(), work)
    };
    let (dq, rest): (Vec<_>, Vec<_>) = results.into_iter().map(|unit| (unit.q, (unit.k, unit.v))).unzip();
    let (dk, dv): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
    let keys = (s.batch, s.kv_heads, s.keys, s.width);
    Ok([
        Tensor::from_vec(units.by_token(&dq), (s.batch, s.queries, s.heads, s.width), &Device::Cpu)?,
        Tensor::from_vec(dk.concat(), keys, &Device::Cpu)?,
        Tensor::from_vec(dv.concat(), keys, &Device::Cpu)?,
    ])
}

/// `dp ← scale · p ∘ (dy·vᵀ − Σ dy∘out)`: the gradient of the scores (FlashAttention, algorithm 4).
fn score_gradients<T: Real>(
    block: &Block<'_>,
    (out, dy): (&[T], &[T]),
    width: usize,
    v: (&[T], Shape2),
    p: &[T],
    dp: &mut Vec<T>,
    scale: T,
) {
    let shape = block.scores();
    dp.resize(shape.rows * shape.columns, T::ZERO);
    multiply((dp, shape), (dy, block.shape(width)), (v.0, v.1.transposed()), T::ZERO, T::ONE);
    vectorised(
        #[inline(always)]
        || {
            let rows = dp.chunks_exact_mut(shape.columns).zip(p.chunks_exact(shape.columns)).enumerate();
            for (row, (dp, p)) in rows {
                let start = row * block.stride;
                let sum = sum_over(&dy[start..start + width], &out[start..start + width], |a, b| a * b);
                for (dp, &p) in dp.iter_mut().zip(p) {
                    *dp = (*dp - sum) * p * scale;
                }
            }
        },
    );
}
