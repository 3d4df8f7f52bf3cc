//! What the notebook of this chapter begins with: `use ch1_single_gpu::notebook::*;`.

pub use crate::{anatomy, kv, memory, stories, throughput, train, wall, xw};
pub use decoder::generation::{self, Options};
pub use decoder::shape::{self, ModelShape};
pub use decoder::split::Split;
pub use decoder::tokenizer::Tokenizer;
pub use decoder::{Context, Decoder};
pub use lab::batch::Batch;
pub use lab::loaded::Described;
pub use lab::notebook::*;
pub use lab::{gradients, roofline, score};
pub use training::optimiser::{Optimiser, Rule};

/// Prepares the process; computes with every core.
///
/// # Errors
/// As [`lab::notebook::begin`]; `RAYON_NUM_THREADS` is not a number.
pub fn begin() -> lab::Result<()> {
    lab::notebook::begin(lab::startup::threads()?)
}
