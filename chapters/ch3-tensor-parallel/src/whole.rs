//! From the ranks' parts back to full tensors by their checkpoint names.

use crate::layout::Held;
use crate::{Result, TensorParallel};
use candle_core::Tensor;
use decoder::weights::save::save_folder;
use decoder::weights::{Part, WeightSpec};
use std::path::Path;
use training::Named;
use training::checkpoint::Snapshot;
use training::optimiser::OptimiserState;

impl TensorParallel {
    /// The full tensors, on every rank: of weights, or of gradients after [`TensorParallel::synchronise`].
    ///
    /// # Errors
    /// A name that the model does not have, or another rank failed.
    pub fn gather(&self, parts: &Named) -> Result<Named> {
        parts.iter().map(|(name, part)| Ok((name.clone(), self.gather_one(name, part)?))).collect()
    }

    /// Writes the model whose parts the ranks hold as one ordinary folder, which any layout reads again. Rank 0 writes; the others hold one
    /// tensor at a time.
    ///
    /// # Errors
    /// The folder cannot be written, or another rank failed.
    pub fn save(&self, parts: &Named, folder: &Path) -> Result<()> {
        let _host = ledger::scope(ledger::Kind::Host);
        let writes = self.group.rank() == 0;
        let mut full = Vec::new();
        for (name, part) in parts {
            let tensor = self.gather_one(name, part)?;
            if writes {
                full.push((name.to_string(), tensor));
            }
        }
        if writes {
            let mut config = self.layout.config().clone();
            config.dtype = parts.values().next().map(Tensor::dtype);
            save_folder(folder, &config.to_json()?, full)?;
        }
        // Nobody reads before it is written.
        Ok(self.group.barrier()?)
    }

    /// The state of the whole run, on every rank, from that of each rank's part.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn gather_snapshot(&self, part: Snapshot) -> Result<Snapshot> {
        let _host = ledger::scope(ledger::Kind::Host);
        let weights = self.gather(&part.weights)?;
        let state = part.optimiser.tensors.iter();
        let state = state.map(|(key, tensor)| Ok((key.clone(), self.gather_one(self.weight_name(key), tensor)?)));
        let optimiser = OptimiserState { steps: part.optimiser.steps, tensors: state.collect::<Result<_>>()? };
        Ok(Snapshot { weights, optimiser, ..part })
    }

    /// This rank's part of the state of a whole run.
    ///
    /// # Errors
    /// A name that the model does not have.
    pub fn part_of_snapshot(&self, whole: Snapshot) -> Result<Snapshot> {
        let cut = |all: &Named| -> Result<Named> {
            let one = |(key, tensor): (&std::sync::Arc<str>, &Tensor)| {
                Ok((key.clone(), self.cut(self.weight(self.weight_name(key))?, tensor)?))
            };
            all.iter().map(one).collect()
        };
        let optimiser = OptimiserState { steps: whole.optimiser.steps, tensors: cut(&whole.optimiser.tensors)? };
        Ok(Snapshot { weights: cut(&whole.weights)?, optimiser, ..whole })
    }

    /// The weight that a tensor of an optimiser's state, `NAME.exp_avg`, belongs to.
    pub(crate) fn weight_of_state(&self, key: &str) -> Option<&WeightSpec> {
        self.layout.weight(key.rsplit_once('.')?.0)
    }

    /// The name of the weight itself, or of the one that a tensor of the optimiser belongs to.
    fn weight_name<'a>(&'a self, key: &'a str) -> &'a str {
        self.weight_of_state(key).map_or(key, |weight| &*weight.name)
    }

    fn cut(&self, weight: &WeightSpec, whole: &Tensor) -> Result<Tensor> {
        let Part::Ranges { dim, ranges } = (self.core.part_of_rank)(&self.layout, weight, self.group.rank()) else {
            return Ok(whole.copy()?);
        };
        let parts = ranges.iter().map(|range| whole.narrow(dim, range.start, range.len()));
        Ok(Tensor::cat(&parts.collect::<candle_core::Result<Vec<_>>>()?, dim)?.force_contiguous()?)
    }

    fn gather_one(&self, name: &str, part: &Tensor) -> Result<Tensor> {
        let weight = self.weight(name)?;
        Ok(match self.layout.held(weight.role) {
            Held::Replicated => part.copy()?,
            Held::Cut { dim } => self.group.all_gather(part, dim)?,
            Held::Grouped { dim } => {
                let all = self.group.all_gather(part, dim)?;
                let (size, replicas) = (part.dim(dim)?, self.layout.replicas());
                let first = |rank: usize| all.narrow(dim, rank * size, size);
                let distinct = (0..self.layout.tp()).step_by(replicas).map(first);
                Tensor::cat(&distinct.collect::<candle_core::Result<Vec<_>>>()?, dim)?
            }
        })
    }
}
