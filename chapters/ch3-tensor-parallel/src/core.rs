//! The chapter's own functions as values: what the exercises are about.
//!
//! Everything that runs tensor-parallel gets a [`Core`] and calls through it. `--with homework` puts the learner's functions there,
//! `--with bug:NAME` a typical mistake.

use crate::context::zigzag;
use crate::gradients::{self, Summed};
use crate::layout::{self, Layout};
use candle_core::Tensor;
use collective::{Communicator, autograd};
use decoder::weights::{Part, Role, WeightSpec};
use lab::flags::WithFlags;
use std::ops::Range;
use std::sync::Arc;

/// `(layout, weight, rank)` → the part of the weight that this rank holds.
pub type PartOfRank = fn(&Layout, &WeightSpec, usize) -> Part;

/// A tensor of this rank → one in which the others have a part; with a backward.
pub type Across = fn(&Arc<dyn Communicator>, &Tensor) -> collective::Result<Tensor>;

/// `(layout, role, sequence parallel)` → over which ranks the gradient of such a weight is still to be summed.
pub type SummedOver = fn(&Layout, Role, bool) -> Summed;

/// `(tokens, ranks, rank)` → the two chunks of a long sequence that this rank computes.
pub type ChunksOfRank = fn(usize, usize, usize) -> [Range<usize>; 2];

/// The chapter's functions.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Which part of a weight a rank holds.
    pub part_of_rank: PartOfRank,
    /// Before a column-parallel product, `[batch, seq, hidden]` → the same: identity forward, all-reduce backward.
    pub f: Across,
    /// After a row-parallel product, `[batch, seq, hidden]` → the same: all-reduce forward, identity backward.
    pub g: Across,
    /// f with sequence parallelism, `[batch, seq / tp, hidden]` → `[batch, seq, hidden]`.
    pub gather: Across,
    /// g with sequence parallelism, `[batch, seq, hidden]` → `[batch, seq / tp, hidden]`.
    pub scatter: Across,
    /// Which gradients are sums over ranks.
    pub summed_over: SummedOver,
    /// Which tokens of a long sequence a rank computes.
    pub chunks_of_rank: ChunksOfRank,
}

impl Core {
    /// What `--with` names.
    ///
    /// # Errors
    /// No chapter up to this one has such an exercise or bug.
    pub fn choose(with: &WithFlags) -> lab::Result<Self> {
        with.choice(&Vec::new())?;
        Ok(Self::default())
    }
}

impl Default for Core {
    fn default() -> Self {
        Self {
            part_of_rank: layout::part_of_rank,
            f: autograd::copy_to_group,
            g: autograd::reduce_from_group,
            gather: |group, x| autograd::gather_from_group(group, x, SEQUENCE),
            scatter: |group, x| autograd::reduce_scatter_to_group(group, x, SEQUENCE),
            summed_over: gradients::summed_over,
            chunks_of_rank: zigzag::chunks_of_rank,
        }
    }
}

/// The dimension of tokens in `[batch, seq, hidden]`.
pub(crate) const SEQUENCE: usize = 1;
