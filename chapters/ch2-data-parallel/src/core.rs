//! The chapter's own functions as values: what the exercises are about.
//!
//! Everything that runs data-parallel gets a [`Core`] and calls through it. `--with homework` puts the learner's functions there,
//! `--with bug:NAME` a typical mistake.

use crate::Result;
use crate::exercises::{ALL_REDUCE, ROWS_OF_RANK, SYNCHRONISE, exercises};
use crate::scaling::Cost;
use collective::{Communicator, Link};
use lab::exercises::{Choice, Exercises};
use lab::flags::WithFlags;
use std::ops::Range;
use training::Named;
use training::accumulation::Loss;

/// `(rows, ranks, rank)` → the rows of that rank.
pub type RowsOfRank = fn(usize, usize, usize) -> Range<usize>;

/// Loss and gradients of a rank's rows → those of the whole batch.
pub type Synchronise = fn(&dyn Communicator, &mut Loss, &mut Named) -> Result<()>;

/// `(link, ranks, elements, width)` → the time of a ring all-reduce of that many elements of `width` bytes.
pub type AllReduceTime = fn(&Link, usize, usize, usize) -> Cost;

/// The chapter's functions.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Exercise 2.2, [`crate::shard::rows_of_rank`]: which rows a rank computes.
    pub rows_of_rank: RowsOfRank,
    /// Exercise 2.3, [`crate::synchronise::synchronise`]: what happens between the backward and the step.
    pub synchronise: Synchronise,
    /// Exercise 2.5, [`crate::scaling::all_reduce`]: how long the sum of a gradient takes.
    pub all_reduce: AllReduceTime,
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
            rows_of_rank: ROWS_OF_RANK.choose(choice),
            synchronise: SYNCHRONISE.choose(choice),
            all_reduce: ALL_REDUCE.choose(choice),
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
    [ch1_single_gpu::exercises::exercises(), exercises()].concat()
}
