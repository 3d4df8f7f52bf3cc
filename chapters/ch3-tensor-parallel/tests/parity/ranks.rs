//! A group of ranks that share every layer.

use super::models::Model;
use ch3_tensor_parallel::boundary::Inputs;
use ch3_tensor_parallel::core::Core;
use ch3_tensor_parallel::{Error, Result, TensorParallel};
use collective::{Options, Rank, launch};
use decoder::Config;

/// With and without sequence parallelism, and with inputs gathered again.
pub(crate) const FORMS: [Option<Inputs>; 3] = [None, Some(Inputs::Kept), Some(Inputs::Regathered)];

pub(crate) fn form(config: &Config, rank: &Rank, sequence: Option<Inputs>) -> Result<TensorParallel> {
    let tensor = TensorParallel::new(Core::default(), config, rank.communicator())?;
    Ok(match sequence {
        Some(inputs) => tensor.with_sequence_parallelism(inputs),
        None => tensor,
    })
}

/// What each of `tp` ranks returns.
pub(crate) fn on_ranks<T: Send>(
    model: &Model,
    tp: usize,
    sequence: Option<Inputs>,
    body: impl Fn(&Rank, TensorParallel) -> Result<T> + Sync,
) -> Vec<T> {
    launch(tp, &Options::default(), |rank| body(rank, form(&model.config, rank, sequence)?))
        .map_err(Error::from)
        .unwrap_or_else(|error| panic!("{}, tp {tp}, {sequence:?}: {error}", model.name))
}
