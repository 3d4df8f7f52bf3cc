//! `--sequence-parallel`, `--regather`.

use crate::boundary::Inputs;
use crate::core::Core;
use crate::{Error, TensorParallel};
use clap::Args;
use collective::Rank;
use decoder::Config;

/// Sequence parallelism in training.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct SequenceFlags {
    /// Norms and the residual stream see a slice of the sequence: the same bytes, fewer activations
    #[arg(long)]
    pub(super) sequence_parallel: bool,
    /// With --sequence-parallel: inputs of a block's first products are gathered again in the backward, not kept
    #[arg(long, requires = "sequence_parallel")]
    pub(super) regather: bool,
}

impl SequenceFlags {
    /// The form of sequence parallelism, if any.
    pub(super) fn inputs(&self) -> Option<Inputs> {
        let inputs = if self.regather { Inputs::Regathered } else { Inputs::Kept };
        self.sequence_parallel.then_some(inputs)
    }

    /// `rank`'s part in a group that shares every layer of `config`.
    pub(super) fn tensor(&self, core: Core, config: &Config, rank: &Rank) -> Result<TensorParallel, Error> {
        let tensor = TensorParallel::new(core, config, rank.communicator())?;
        Ok(match self.inputs() {
            Some(inputs) => tensor.with_sequence_parallelism(inputs),
            None => tensor,
        })
    }
}
