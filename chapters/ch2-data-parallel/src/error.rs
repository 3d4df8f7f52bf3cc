//! The one error type of this crate's library.

use std::ops::Range;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong on a rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Replicas hold different weights: from now on each would train a model of its own.
    #[error(
        "rank {rank}'s {name} is not rank 0's {when}; every replica must start from the same weights and add the same gradient"
    )]
    Diverged {
        /// The first rank that differs from rank 0.
        rank: usize,
        /// The first parameter that differs, in the order of names.
        name: String,
        /// `at the start`, `after step 7`.
        when: String,
    },
    /// Another rank failed, or a collective was refused.
    #[error(transparent)]
    Collective(#[from] collective::Error),
    /// The rank's own computation failed.
    #[error(transparent)]
    Training(Box<training::Error>),
    /// A model or batch is not usable.
    #[error(transparent)]
    Decoder(Box<decoder::Error>),
    /// A score, a gradient, a flag.
    #[error(transparent)]
    Lab(Box<lab::Error>),
    /// A tensor computation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A rank was given rows that the batch does not have.
    #[error("rank {rank} is to compute rows {found:?} of a batch of {rows}: every row belongs to exactly one rank")]
    Rows {
        /// The rank.
        rank: usize,
        /// Its rows.
        found: Range<usize>,
        /// Rows of the batch.
        rows: usize,
    },
}

// Boxed: they are the largest by far, and every result would be as large.

impl From<training::Error> for Error {
    fn from(error: training::Error) -> Self {
        Self::Training(Box::new(error))
    }
}

impl From<decoder::Error> for Error {
    fn from(error: decoder::Error) -> Self {
        Self::Decoder(Box::new(error))
    }
}

impl From<lab::Error> for Error {
    fn from(error: lab::Error) -> Self {
        Self::Lab(Box::new(error))
    }
}
