//! From the ranks' parts back to full tensors by their checkpoint names.

use crate::layout::Held;
use crate::{Result, TensorParallel};
use candle_core::Tensor;
use decoder::weights::save::save_folder;
use std::path::Path;
use training::Named;

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
            save_folder(folder, &self.layout.config().to_json()?, full)?;
        }
        // Nobody reads before it is written.
        Ok(self.group.barrier()?)
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
