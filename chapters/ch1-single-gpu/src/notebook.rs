//! What the notebook of this chapter begins with: `use ch1_single_gpu::notebook::*;`.

pub use crate::commands::{flops_chart, under_the_roof};
pub use crate::{anatomy, kv, memory, stories, throughput, train, wall, xw};
pub use candle_core::backprop::GradStore;
pub use decoder::cache::KvCache;
pub use decoder::generation::{Generated, Options, Sampling};
pub use decoder::shape::{self, Flops, ModelShape};
pub use decoder::split::Split;
pub use decoder::tokenizer::Tokenizer;
pub use decoder::{self, Context, Decoder};
pub use lab::batch::Batch;
pub use lab::loaded::Described;
pub use lab::notebook::*;
pub use lab::{gradients, roofline, score};
pub use training::Named;
pub use training::optimiser::{Optimiser, Rule};

use std::ops::ControlFlow;

/// Prepares the process; computes with every core.
///
/// # Errors
/// As [`lab::notebook::begin`]; `RAYON_NUM_THREADS` is not a number.
pub fn begin() -> lab::Result<()> {
    lab::notebook::begin(lab::startup::threads()?)
}

/// Continues one prompt.
///
/// # Errors
/// As [`decoder::generation::generate`].
pub fn continue_with(model: &Decoder, prompt: &[u32], options: &Options) -> decoder::Result<Generated> {
    let prompts = [prompt.to_vec()];
    decoder::generation::generate(model, &Context::inference(), &prompts, options, |_, _| Ok(ControlFlow::Continue(())))
}
