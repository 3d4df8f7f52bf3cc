//! How attention on CPU is cut: into units that are shared out over threads, and units into blocks of queries.

use super::{Sizes, seen};
use crate::ops::matrix::Shape2;
use crate::ops::real::Real;
use crate::ops::visible::Visible;
use candle_core::{Result, Storage, bail};
use rayon::prelude::*;
use std::ops::Range;

/// Queries per block: the scores of a block fit the second-level cache up to a few thousand keys.
const BLOCK: usize = 64;

/// Keys or values `[batch, kv_heads, keys, width]` with any strides between rows.
pub(super) struct Keys<'a, T> {
    data: &'a [T],
    batch_stride: usize,
    head_stride: usize,
    row_stride: usize,
}

impl<'a, T: Real> Keys<'a, T> {
    pub(super) fn of(storage: &'a Storage, layout: &candle_core::Layout) -> Result<Self> {
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
    pub(super) fn rows(&self, row: usize, head: usize, range: &Range<usize>, width: usize) -> (&'a [T], Shape2) {
        let start = row * self.batch_stride + head * self.head_stride + range.start * self.row_stride;
        (&self.data[start..], Shape2::rows(range.len(), width, self.row_stride))
    }
}

/// Some queries that are computed together.
pub(super) struct Block<'a> {
    /// Offset of the first query in `[batch, seq, heads, width]`.
    pub(super) start: usize,
    /// Elements between one query of the block and the next.
    pub(super) stride: usize,
    /// Per query, the keys it sees.
    pub(super) visible: Vec<&'a Range<usize>>,
    /// The keys that any of them sees.
    pub(super) keys: Range<usize>,
}

impl Block<'_> {
    pub(super) fn shape(&self, width: usize) -> Shape2 {
        Shape2::rows(self.visible.len(), width, self.stride)
    }

    pub(super) fn scores(&self) -> Shape2 {
        Shape2::rows(self.visible.len(), self.keys.len(), self.keys.len())
    }
}

/// How the work is cut: `heads` query heads of one row of the batch in each unit.
#[derive(Clone, Copy)]
pub(super) struct Units {
    pub(super) s: Sizes,
    /// Divides the group, so that a unit has one key head.
    pub(super) heads: usize,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) row: usize,
    pub(super) first_head: usize,
    pub(super) heads: usize,
    pub(super) key_head: usize,
}

impl Units {
    pub(super) fn count(self) -> usize {
        self.s.batch * self.s.heads / self.heads
    }

    pub(super) fn unit(self, index: usize) -> Unit {
        let (row, first_head) = (index * self.heads / self.s.heads, index * self.heads % self.s.heads);
        Unit { row, first_head, heads: self.heads, key_head: first_head / self.s.group() }
    }

    /// Runs every unit, in parallel if the work is worth it. The order of results does not depend on the threads.
    pub(super) fn run<R: Send>(self, pairs: u64, work: impl Fn(Unit) -> R + Send + Sync) -> Vec<R> {
        let flops = pairs * (self.s.heads * self.s.width) as u64;
        if rayon::current_num_threads() > 1 && self.count() > 1 && flops > 1 << 17 {
            (0..self.count()).into_par_iter().map(|index| work(self.unit(index))).collect()
        } else {
            (0..self.count()).map(|index| work(self.unit(index))).collect()
        }
    }

    /// Results `[heads, seq, width]` of all units → `[batch, seq, heads, width]`.
    pub(super) fn by_token<T: Real>(self, results: &[Vec<T>]) -> Vec<T> {
        let s = self.s;
        let mut out = vec![T::ZERO; s.batch * s.queries * s.heads * s.width];
        for (index, result) in results.iter().enumerate() {
            let unit = self.unit(index);
            for (position, piece) in result.chunks_exact(s.width).enumerate() {
                let (head, query) = (unit.first_head + position / s.queries, position % s.queries);
                let start = ((unit.row * s.queries + query) * s.heads + head) * s.width;
                out[start..start + s.width].copy_from_slice(piece);
            }
        }
        out
    }
}

/// The blocks of a unit.
pub(super) fn blocks(visible: &Visible, s: Sizes, unit: Unit) -> Vec<Block<'_>> {
    let ranges = visible.row(unit.row);
    let start = |query: usize, head: usize| ((unit.row * s.queries + query) * s.heads + head) * s.width;
    let heads = unit.first_head..unit.first_head + unit.heads;
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

/// A unit's output `[heads, seq, width]` in the pieces that its blocks fill, in the order of [`blocks`].
pub(super) fn out_blocks<T>(out: &mut [T], s: Sizes) -> Vec<&mut [T]> {
    out.chunks_mut(s.queries * s.width).flat_map(|head| head.chunks_mut(BLOCK * s.width)).collect()
}
