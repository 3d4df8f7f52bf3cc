//! Attention on CPU, block by block.
//!
//! The unit of work is one key head of one row of the batch: its keys stay in the cache while all query heads of the
//! group pass over them. Units are shared out over the current rayon pool. A [`Block`] is some queries of one head in
//! prefill and training, all heads of the group in a decode step.

use super::{Sizes, seen};
use crate::ops::matrix::{Shape2, multiply};
use crate::ops::real::{Elements, Real, largest, sum_over, vectorised};
use crate::ops::visible::Visible;
use candle_core::{Device, Result, Storage, Tensor, bail};
use rayon::prelude::*;
use std::ops::Range;

/// Queries per block: the scores of a block fit the second-level cache up to a few thousand keys.
const BLOCK: usize = 64;

/// Keys or values `[batch, kv_heads, keys, width]` with any strides between rows.
struct Keys<'a, T> {
    data: &'a [T],
    batch_stride: usize,
    head_stride: usize,
    row_stride: usize,
}

impl<'a, T: Real> Keys<'a, T> {
    fn of(storage: &'a Storage, layout: &candle_core::Layout) -> Result<Self> {
        let Storage::Cpu(storage) = storage else { bail!("a tensor on the CPU is needed here") };
        match layout.stride() {
            [batch_stride, head_stride, row_stride, 1] => Ok(Self {
                data: &storage.as_slice::<T>()?[layout.start_offset()..],
                batch_stride: *batch_stride,
                head_stride: *head_stride,
                row_stride: *row_stride,
            }),
            other => bail!("attention: keys with strides {other:?}"),
        }
    }

    /// The rows `range` of one head.
    fn rows(&self, row: usize, head: usize, range: &Range<usize>, width: usize) -> (&'a [T], Shape2) {
        let start = row * self.batch_stride + head * self.head_stride + range.start * self.row_stride;
        (&self.data[start..], Shape2::rows(range.len(), width, self.row_stride))
    }
}

/// Some queries that are computed together.
struct Block<'a> {
    /// Offset of the first query in `[batch, seq, heads, width]`.
    start: usize,
    /// Elements between one query of the block and the next.
    stride: usize,
    /// Per query, the keys it sees.
    visible: Vec<&'a Range<usize>>,
    /// The keys that any of them sees.
    keys: Range<usize>,
}

impl Block<'_> {
    fn shape(&self, width: usize) -> Shape2 {
        Shape2::rows(self.visible.len(), width, self.stride)
    }

    fn scores(&self) -> Shape2 {
        Shape2::rows(self.visible.len(), self.keys.len(), self.keys.len())
    }
}

/// The blocks of key head `head` in row `row` of the batch.
fn blocks<'a>(visible: &'a Visible, s: Sizes, row: usize, head: usize) -> Vec<Block<'a>> {
    let ranges = visible.row(row);
    let first_head = head * s.group();
    let start = |query: usize, head: usize| ((row * s.queries + query) * s.heads + head) * s.width;
    if let [range] = ranges {
        let visible = vec![range; s.group()];
        return vec![Block { start: start(0, first_head), stride: s.width, visible, keys: range.clone() }];
    }
    let heads = first_head..first_head + s.group();
    heads
        .flat_map(|head| {
            ranges.chunks(BLOCK).enumerate().map(move |(index, ranges)| Block {
                start: start(index * BLOCK, head),
                stride: s.heads * s.width,
                visible: ranges.iter().collect(),
                keys: seen(ranges),
            })
        })
        .collect()
}

/// `scores ← softmax(scale · q·kᵀ)` over each query's visible keys, zeros elsewhere.
fn probabilities<T: Real>(block: &Block<'_>, q: (&[T], Shape2), k: (&[T], Shape2), scores: &mut Vec<T>, scale: T) {
    let shape = block.scores();
    scores.clear();
    scores.resize(shape.rows * shape.columns, T::ZERO);
    multiply((scores, shape), q, (k.0, k.1.transposed()), T::ZERO, scale);
    vectorised(
        #[inline(always)]
        || {
            for (scores, range) in scores.chunks_exact_mut(shape.columns.max(1)).zip(&block.visible) {
                let (from, to) = if range.is_empty() {
                    (0, 0)
                } else {
                    (range.start - block.keys.start, range.end - block.keys.start)
                };
                scores[..from].fill(T::ZERO);
                scores[to..].fill(T::ZERO);
                softmax(&mut scores[from..to]);
            }
        },
    );
}

#[inline(always)]
fn softmax<T: Real>(scores: &mut [T]) {
    let largest = largest(scores);
    for score in scores.iter_mut() {
        *score = Real::exp(*score - largest);
    }
    let inverse = T::ONE / sum_over(scores, scores, |a, _| a);
    for score in scores.iter_mut() {
        *score = *score * inverse;
    }
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
    let elements = Elements::<T>::of(q)?;
    let q: &[T] = &elements;
    let ((k_storage, k_layout), (v_storage, v_layout)) = (k.storage_and_layout(), v.storage_and_layout());
    let (k, v) = (Keys::<T>::of(&k_storage, k_layout)?, Keys::<T>::of(&v_storage, v_layout)?);
    let scale = T::from_f64(scale);
    // Each unit computes its heads' output apart, [group, seq, width], so that units never share memory.
    let unit = |index: usize| {
        let (row, head) = (index / s.kv_heads, index % s.kv_heads);
        let mut out = vec![T::ZERO; s.group() * s.queries * s.width];
        let mut scores = Vec::new();
        for (block, out) in blocks(visible, s, row, head).iter().zip(out_blocks(&mut out, s)) {
            if block.keys.is_empty() {
                continue;
            }
            let q = (&q[block.start..], block.shape(s.width));
            probabilities(block, q, k.rows(row, head, &block.keys, s.width), &mut scores, scale);
            let dense = Shape2::rows(block.visible.len(), s.width, s.width);
            let v = v.rows(row, head, &block.keys, s.width);
            multiply((out, dense), (&scores, block.scores()), v, T::ZERO, T::ONE);
        }
        out
    };
    let _kind = ledger::scope(ledger::Kind::Workspace);
    let units = over_units(s, visible.pairs(), unit);
    drop(_kind);
    Tensor::from_vec(by_token(&units, s), (s.batch, s.queries, s.heads, s.width), &Device::Cpu)
}

/// A unit's output `[group, seq, width]` in the pieces that its blocks fill, in the order of [`blocks`].
fn out_blocks<T>(out: &mut [T], s: Sizes) -> Vec<&mut [T]> {
    if s.queries == 1 {
        return vec![out];
    }
    out.chunks_mut(s.queries * s.width).flat_map(|head| head.chunks_mut(BLOCK * s.width)).collect()
}

/// Runs every unit, in parallel if the work is worth it. The order of results does not depend on the threads.
fn over_units<R: Send>(s: Sizes, pairs: u64, unit: impl Fn(usize) -> R + Send + Sync) -> Vec<R> {
    let units = s.batch * s.kv_heads;
    let work = pairs * (s.heads * s.width) as u64;
    if rayon::current_num_threads() > 1 && units > 1 && work > 1 << 17 {
        (0..units).into_par_iter().map(unit).collect()
    } else {
        (0..units).map(unit).collect()
    }
}

/// Units `[batch · kv_heads][group, seq, width]` → `[batch, seq, heads, width]`.
fn by_token<T: Real>(units: &[Vec<T>], s: Sizes) -> Vec<T> {
    let mut out = vec![T::ZERO; s.batch * s.queries * s.heads * s.width];
    for (index, unit) in units.iter().enumerate() {
        let (row, first_head) = (index / s.kv_heads, index % s.kv_heads * s.group());
        for (position, piece) in unit.chunks_exact(s.width).enumerate() {
            let (head, query) = (first_head + position / s.queries, position % s.queries);
            let start = ((row * s.queries + query) * s.heads + head) * s.width;
            out[start..start + s.width].copy_from_slice(piece);
        }
    }
    out
}

/// Gradients of one unit: of its query heads `[group, seq, width]`, its keys and its values `[keys, width]`.
struct UnitGradients<T> {
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
}

/// Gradients of q, k and v, the scores computed again block by block.
pub(super) fn backward_loop<T: Real>(
    [q, k, v]: [&Tensor; 3],
    out: &Tensor,
    dy: &Tensor,
    visible: &Visible,
    s: Sizes,
    scale: f64,
) -> Result<[Tensor; 3]> {
    let (q, out, dy) = (Elements::<T>::of(q)?, Elements::<T>::of(out)?, Elements::<T>::of(dy)?);
    let (q, out, dy): (&[T], &[T], &[T]) = (&q, &out, &dy);
    let ((k_storage, k_layout), (v_storage, v_layout)) = (k.storage_and_layout(), v.storage_and_layout());
    let (k, v) = (Keys::<T>::of(&k_storage, k_layout)?, Keys::<T>::of(&v_storage, v_layout)?);
    let scale = T::from_f64(scale);
    let unit = |index: usize| {
        let (row, head) = (index / s.kv_heads, index % s.kv_heads);
        let empty = |rows: usize| vec![T::ZERO; rows * s.width];
        let mut gradients = UnitGradients { q: empty(s.group() * s.queries), k: empty(s.keys), v: empty(s.keys) };
        let (mut p, mut dp) = (Vec::new(), Vec::new());
        for (block, dq) in blocks(visible, s, row, head).iter().zip(out_blocks(&mut gradients.q, s)) {
            if block.keys.is_empty() {
                continue;
            }
            let shape = block.shape(s.width);
            let (k, v) = (k.rows(row, head, &block.keys, s.width), v.rows(row, head, &block.keys, s.width));
            let (q, out, dy) = (&q[block.start..], &out[block.start..], &dy[block.start..]);
            probabilities(block, (q, shape), k, &mut p, scale);
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
    let units = {
        let _kind = ledger::scope(ledger::Kind::Workspace);
        over_units(s, 3 * visible.pairs(), unit)
    };
    let (dq, rest): (Vec<_>, Vec<_>) = units.into_iter().map(|unit| (unit.q, (unit.k, unit.v))).unzip();
    let (dk, dv): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
    let keys = (s.batch, s.kv_heads, s.keys, s.width);
    Ok([
        Tensor::from_vec(by_token(&dq, s), (s.batch, s.queries, s.heads, s.width), &Device::Cpu)?,
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
    dp.clear();
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
