//! The chapter's own functions as values: what the exercises are about.
//!
//! Everything that runs tensor-parallel gets a [`Core`] and calls through it. `--with homework` puts the learner's functions there,
//! `--with bug:NAME` a typical mistake.

use crate::exercises::{CHUNKS_OF_RANK, CONJUGATES, PART_OF_RANK, SUMMED_OVER, exercises};
use crate::gradients::Summed;
use crate::layout::Layout;
use candle_core::Tensor;
use collective::{Communicator, autograd};
use decoder::weights::{Part, Role, WeightSpec};
use lab::exercises::{Choice, Exercises};
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

/// f and g: two halves of one idea.
#[derive(Clone, Copy, Debug)]
pub struct Conjugates {
    /// Before a column-parallel product, `[batch, seq, hidden]` → the same: identity forward, all-reduce backward.
    pub f: Across,
    /// After a row-parallel product, `[batch, seq, hidden]` → the same: all-reduce forward, identity backward.
    pub g: Across,
}

/// The chapter's functions.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Exercise 3.2, [`crate::layout::part_of_rank`]: which part of a weight a rank holds.
    pub part_of_rank: PartOfRank,
    /// Exercise 3.3: f and g.
    pub conjugates: Conjugates,
    /// Exercise 3.5, [`crate::gradients::summed_over`]: which gradients are sums over ranks.
    pub summed_over: SummedOver,
    /// Exercise 3.7, [`crate::context::zigzag::chunks_of_rank`]: which tokens of a long sequence a rank computes.
    pub chunks_of_rank: ChunksOfRank,
}

impl Core {
    /// What `--with` names.
    ///
    /// # Errors
    /// No chapter up to this one has such an exercise or bug.
    pub fn choose(with: &WithFlags) -> lab::Result<Self> {
        Ok(Self::of(&with.choice(&known())?))
    }

    /// What `choice` names: for a chapter that builds on this one.
    pub fn of(choice: &Choice) -> Self {
        Self {
            part_of_rank: PART_OF_RANK.choose(choice),
            conjugates: CONJUGATES.choose(choice),
            summed_over: SUMMED_OVER.choose(choice),
            chunks_of_rank: CHUNKS_OF_RANK.choose(choice),
        }
    }
}

impl Default for Core {
    /// The reference.
    fn default() -> Self {
        Self::of(&Choice::default())
    }
}

/// The exercises of this chapter and of those that it builds on.
fn known() -> Exercises {
    [ch1_single_gpu::exercises::exercises(), ch2_data_parallel::exercises::exercises(), exercises()].concat()
}

/// f with sequence parallelism, `[batch, seq / tp, hidden]` → `[batch, seq, hidden]`: all-gather forward, reduce-scatter backward.
///
/// # Errors
/// Another rank failed.
pub fn gather(group: &Arc<dyn Communicator>, x: &Tensor) -> collective::Result<Tensor> {
    autograd::gather_from_group(group, x, SEQUENCE)
}

/// g with sequence parallelism, `[batch, seq, hidden]` → `[batch, seq / tp, hidden]`: reduce-scatter forward, all-gather backward.
///
/// # Errors
/// Another rank failed.
pub fn scatter(group: &Arc<dyn Communicator>, x: &Tensor) -> collective::Result<Tensor> {
    autograd::reduce_scatter_to_group(group, x, SEQUENCE)
}

/// The dimension of tokens in `[batch, seq, hidden]`.
pub(crate) const SEQUENCE: usize = 1;
