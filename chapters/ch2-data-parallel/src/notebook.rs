//! What the notebook of this chapter begins with: `use ch2_data_parallel::notebook::*;`.

pub use crate::commands::{Trained, apart, mean_of_means, partition_figure, rank_losses, trained};
pub use crate::core::Core;
pub use crate::partition::{self, Cut, Outcome, Product, Values};
pub use crate::scaling::{self, Cost, Measured};
pub use crate::shard::rows_of_rank;
pub use crate::{memory, traffic};
pub use ch1_single_gpu::memory::{Plan, Work};
pub use collective::{ClockKind, Link, Options, Roofline, Topology};
pub use decoder::shape::hardware::{Hardware, Precision};
pub use decoder::shape::{self, Footprint, ModelShape};
pub use decoder::tokenizer::Tokenizer;
pub use lab::batch::Batch;
pub use lab::exercises::With;
pub use lab::flags::WithFlags;
pub use lab::loaded::Described;
pub use lab::notebook::*;
pub use ledger::Kind;
pub use training::Named;

use crate::commands::replica_gradients;
use crate::{Error, Result, serve};
use collective::launch;
use decoder::Context;
use decoder::split::Split;
use std::num::NonZeroUsize;

/// Prepares the process; a rank is one core.
///
/// # Errors
/// As [`lab::notebook::begin`].
pub fn begin() -> lab::Result<()> {
    lab::notebook::begin(NonZeroUsize::MIN)
}

/// Loss and gradients of `batch`, computed by `dp` ranks with the functions of `core`; all ranks have the same.
///
/// # Errors
/// A rank failed.
pub fn gradients_of(core: &Core, described: &Described, dp: usize, batch: &Batch) -> Result<(f64, Named)> {
    let mut ranks = launch(dp, &Options::default(), |rank| replica_gradients(core, described, batch, rank))?;
    Ok(ranks.remove(0))
}

/// What `dp` replicas write after `prompts`, `count` tokens each, in the order of the prompts; and the bytes that they sent each other.
///
/// # Errors
/// A rank failed.
pub fn written_by(
    core: &Core,
    described: &Described,
    dp: usize,
    prompts: &[Vec<u32>],
    count: usize,
) -> Result<(Vec<Vec<u32>>, u64)> {
    let options = decoder::generation::Options { max_tokens: count, stop_at_eos: false, ..Default::default() };
    let ranks = launch(dp, &Options::default(), |rank| {
        let model = described.load(&Split::whole())?;
        let place = (rank.size(), rank.rank());
        let written = serve::generate_own(core, place, &model, &Context::inference(), prompts, &options)?;
        Ok::<_, Error>((written, rank.traffic().sent().total()))
    })?;
    let (parts, sent): (Vec<_>, Vec<u64>) = ranks.into_iter().unzip();
    Ok((serve::join(parts).ids, sent.iter().sum()))
}
