//! What the notebook of this chapter begins with: `use ch3_tensor_parallel::notebook::*;`.

pub use crate::anatomy::{self, Reduced, Share};
pub use crate::boundary::Inputs;
pub use crate::commands::links_chart;
pub use crate::communication::{self, Exchange, Tokens};
pub use crate::context::zigzag;
pub use crate::core::Core;
pub use crate::memory::{self, Step};
pub use crate::{Layout, TensorParallel};
pub use collective::{self, Traffic};
pub use decoder::Config;
pub use decoder::split::Block;
pub use decoder::tokenizer::Tokenizer;
pub use lab::batch::Batch;
pub use lab::exercises::With;
pub use lab::flags::WithFlags;
pub use lab::loaded::Described;
pub use lab::notebook::*;
pub use lab::variant::largest_difference;
pub use training::Named;

use crate::communication::total;
use crate::{Error, Result};
use collective::{Algorithm, Options, Topology, launch};
use ledger::Ignore;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Prepares the process; a rank is one core.
///
/// # Errors
/// As [`lab::notebook::begin`].
pub fn begin() -> lab::Result<()> {
    lab::notebook::begin(NonZeroUsize::MIN)
}

/// What `count` tokens each of `tp` ranks writes after `prompt`, all the same.
///
/// # Errors
/// A rank failed.
pub fn written_by(described: &Described, tp: usize, prompt: &[u32], count: usize) -> Result<Vec<Vec<u32>>> {
    let options = decoder::generation::Options { max_tokens: count, stop_at_eos: false, ..Default::default() };
    Ok(launch(tp, &Options::default(), |rank| {
        let tensor = TensorParallel::new(Core::default(), &described.config, rank.communicator())?;
        let model = described.load(&tensor.split())?;
        Ok::<_, Error>(tensor.generate(&model, Arc::new(Ignore), &[prompt.to_vec()], &options)?.ids.concat())
    })?)
}

/// Full gradients of the mean loss of `batch`, computed by `tp` ranks with the functions of `core`.
///
/// # Errors
/// A rank failed.
pub fn gradients_of(
    core: Core,
    described: &Described,
    tp: usize,
    sequence: Option<Inputs>,
    batch: &Batch,
) -> Result<Named> {
    let mut ranks = launch(tp, &Options::default(), |rank| {
        let tensor = part(core, described, sequence, rank)?;
        let model = described.load(&tensor.training_split())?;
        Ok::<_, Error>(tensor.gradients(&model, Arc::new(Ignore), batch)?.1)
    })?;
    Ok(ranks.remove(0))
}

/// The calls of one backward of `batch` on rank 0 of `tp`, by formula, and what it sent.
///
/// # Errors
/// A rank failed.
pub fn sent_by(
    described: &Described,
    tp: usize,
    sequence: Option<Inputs>,
    batch: &Batch,
) -> Result<(Vec<Exchange>, Traffic)> {
    let mut ranks = launch(tp, &Options::default(), |rank| {
        let tensor = part(Core::default(), described, sequence, rank)?;
        let model = described.load(&tensor.training_split())?;
        let ctx = tensor.training(Arc::new(Ignore));
        let (_, mut gradients) = lab::gradients::contribution(&model, &ctx, batch, batch.targets())?;
        tensor.synchronise(&mut gradients)?;
        let formula = tensor.predictor(Algorithm::Ring, &Topology::default(), model.activations().size_in_bytes());
        let seq = batch.sequences().iter().map(Vec::len).max().unwrap_or(1) - 1;
        let tokens = Tokens { rows: batch.sequences().len(), seq };
        let predicted =
            [formula.setup(), formula.training(tokens, sequence), formula.synchronisation(sequence.is_some())];
        Ok::<_, Error>((predicted.concat(), rank.traffic()))
    })?;
    Ok(ranks.remove(0))
}

/// Predicted bytes sent beside those that were counted.
pub fn beside(what: &str, (predicted, traffic): &(Vec<Exchange>, Traffic)) -> Compared {
    Compared::exact(what, total(predicted).sent.total(), Some(traffic.sent().total()), Unit::Bytes)
}

fn part(
    core: Core,
    described: &Described,
    sequence: Option<Inputs>,
    rank: &collective::Rank,
) -> Result<TensorParallel> {
    let tensor = TensorParallel::new(core, &described.config, rank.communicator())?;
    Ok(match sequence {
        Some(inputs) => tensor.with_sequence_parallelism(inputs),
        None => tensor,
    })
}
