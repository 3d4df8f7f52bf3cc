//! What a run is to do, checked before anything starts.

use crate::optimiser::Rule;
use crate::schedule::Schedule;
use crate::{Error, Result};
use serde::Serialize;

/// Sequences of a batch at most: far beyond any machine, and sizes computed from it stay far below 2^64.
pub const MOST_ROWS: usize = 1 << 16;

/// A run's settings. With the corpus, the model and its first weights they decide every bit of the trajectory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Sequences of the global batch.
    pub batch: usize,
    /// Tokens of a sequence.
    pub seq: usize,
    /// Forwards and backwards that each rank cuts its rows of the batch into: less memory, the same gradient.
    pub micro_batches: usize,
    /// Optimiser steps. Not compared on resuming: a longer run has the same beginning, unless its schedule says otherwise.
    #[serde(skip)]
    pub steps: u64,
    /// How a gradient becomes a step.
    pub rule: Rule,
    /// How far to go, by step.
    pub schedule: Schedule,
    /// Largest global norm of the gradient; `None` does not clip.
    pub clip: Option<f64>,
    /// Seed of the order of the corpus.
    pub seed: u64,
}

impl Plan {
    /// What is wrong with the settings, for a model with a context of `context` tokens.
    ///
    /// # Errors
    /// The first setting that has no meaning: a size or a number of steps of 0, more than [`MOST_ROWS`], more micro-batches than sequences, sequences longer
    /// than the context, a clipping norm that is not positive.
    pub fn check(&self, context: usize) -> Result<()> {
        for (name, size) in
            [("batch", self.batch), ("sequence length", self.seq), ("micro-batches", self.micro_batches)]
        {
            if size == 0 {
                return Err(Error::setting(name, size, "at least 1"));
            }
        }
        if self.batch > MOST_ROWS {
            return Err(Error::setting("batch", self.batch, format!("at most {MOST_ROWS} sequences")));
        }
        if self.steps == 0 {
            return Err(Error::setting("steps", 0, "at least 1"));
        }
        if self.micro_batches > self.batch {
            let expected = format!("at most one per sequence of the batch: 1 to {}", self.batch);
            return Err(Error::setting("micro-batches", self.micro_batches, expected));
        }
        if self.seq > context {
            return Err(Error::setting("sequence length", self.seq, format!("at most the model's context, {context}")));
        }
        match self.clip {
            Some(norm) if norm.is_nan() || norm <= 0.0 => {
                Err(Error::setting("clipping norm", norm, "a positive number, such as 1.0"))
            }
            _ => Ok(()),
        }
    }
}
