//! The chapter's own functions as values: what the exercises are about.
//!
//! Everything that runs data-parallel gets a [`Core`] and calls through it. `--with homework` puts the learner's functions there,
//! `--with bug:NAME` a typical mistake.

use crate::Result;
use crate::{shard, synchronise};
use collective::Communicator;
use std::ops::Range;
use training::Named;
use training::accumulation::Loss;

/// `(rows, ranks, rank)` → the rows of that rank.
pub type RowsOfRank = fn(usize, usize, usize) -> Range<usize>;

/// Loss and gradients of a rank's rows → those of the whole batch.
pub type Synchronise = fn(&dyn Communicator, &mut Loss, &mut Named) -> Result<()>;

/// The chapter's functions.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Which rows a rank computes.
    pub rows_of_rank: RowsOfRank,
    /// What happens between the backward and the step.
    pub synchronise: Synchronise,
}

impl Default for Core {
    fn default() -> Self {
        Self { rows_of_rank: shard::rows_of_rank, synchronise: synchronise::synchronise }
    }
}
