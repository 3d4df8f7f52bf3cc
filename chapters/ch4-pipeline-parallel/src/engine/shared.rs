//! What the stages must agree on after a step: a tied embedding's gradient, the norm, the loss.

use super::Stage;
use crate::Result;
use candle_core::{Device, Tensor};
use collective::ReduceOp;
use decoder::weights::Role;
use std::sync::Arc;
use training::accumulation::Loss;
use training::{Named, clip};

impl Stage<'_> {
    /// The name of the weight that both ends of the pipeline hold a copy of: a tied embedding, unless both ends are here.
    fn tied(&self) -> Option<Arc<str>> {
        let (config, stages) = (self.model.config(), self.pipeline.stages());
        (config.tied && stages.first() != stages.last()).then(|| config.weight(Role::Embedding, 0).name)
    }

    /// Sums the gradients of the two copies of a tied embedding, so that both step alike. Every stage may call it; only the ends do
    /// something.
    ///
    /// # Errors
    /// Communication failed.
    pub fn sum_tied(&self, gradients: &mut Named) -> Result<()> {
        let (first, last) = (self.pipeline.stages().first(), self.pipeline.stages().last());
        let here = self.number();
        let Some(name) = self.tied().filter(|_| here == first || here == last) else { return Ok(()) };
        let other = if here == first { last } else { first };
        if let Some(own) = gradients.get_mut(&name) {
            let _kind = ledger::scope(ledger::Kind::Gradients);
            let theirs = self.communicator.send_recv(own, other, other)?.to_device(own.device())?;
            // The sum of two numbers does not depend on their order: the copies stay equal to the last bit.
            *own = (&*own + theirs)?;
        }
        Ok(())
    }

    /// The norm of all stages' gradients as one vector; a tied embedding counts once, at the first stage.
    ///
    /// # Errors
    /// A gradient that is not finite, or communication failed.
    pub fn global_norm(&self, gradients: &Named, step: u64) -> Result<f64> {
        let copy = self.tied().filter(|_| self.number() == self.pipeline.stages().last());
        let squares = match copy {
            Some(name) => {
                let own = gradients.iter().filter(|(other, _)| **other != name);
                clip::sum_of_squares(&own.map(|(name, value)| (name.clone(), value.clone())).collect(), step)?
            }
            None => clip::sum_of_squares(gradients, step)?,
        };
        let squares = Tensor::new(squares, &Device::Cpu)?;
        Ok(self.communicator.all_reduce(&squares, ReduceOp::Sum)?.to_scalar::<f64>()?.sqrt())
    }

    /// The last stage's loss, on every stage: for what decides about the whole run. A stage without a loss has none until then.
    ///
    /// # Errors
    /// Communication failed.
    pub fn share_loss(&self, loss: Option<Loss>) -> Result<Loss> {
        let Loss { sum, count } = loss.unwrap_or_default();
        let both = Tensor::new(&[sum, count as f64], &Device::Cpu)?;
        let both = self.communicator.broadcast(&both, self.pipeline.stages().last())?.to_vec1::<f64>()?;
        Ok(Loss { sum: both[0], count: both[1] as usize })
    }
}
