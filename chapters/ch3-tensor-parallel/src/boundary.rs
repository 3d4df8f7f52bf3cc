//! What happens where hidden states enter and leave a block.
//!
//! ```text
//!                     forward        backward          with sequence parallelism
//!   enter  f          identity       all-reduce        all-gather     / reduce-scatter
//!   leave  g          all-reduce     identity          reduce-scatter / all-gather
//! ```
//!
//! f is there because every rank's columns give it a summand of the gradient of x. With sequence parallelism (Korthikanti et al.,
//! *Reducing Activation Recomputation in Large Transformer Models*, 2022) norms and the residual stream see a slice of the tokens: an
//! all-reduce is a reduce-scatter and an all-gather, so as many bytes are sent, and what lies between the blocks is held once instead of
//! tp times.

use crate::core::{Across, Core, SEQUENCE, gather, scatter};
use crate::error::in_decoder;
use crate::released::{fill, release};
use candle_core::Tensor;
use collective::Communicator;
use decoder::split::{Block, Boundary, Partial};
use decoder::{Context, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// f and g.
pub(crate) struct TensorBoundary {
    pub(crate) core: Core,
    pub(crate) group: Arc<dyn Communicator>,
}

impl Boundary for TensorBoundary {
    fn enter(&self, _: &Context, _: Block, x: Tensor) -> Result<Tensor> {
        crossed(self.core.conjugates.f, &self.group, &x)
    }

    fn leave(&self, _: &Context, _: Block, partial: Partial) -> Result<Tensor> {
        partial.reduce(|summand| crossed(self.core.conjugates.g, &self.group, &summand))
    }
}

/// `x` as `across` makes it. Nobody reads `x` again, not even a backward: the graph keeps it, but its memory can go.
pub(crate) fn crossed(across: Across, group: &Arc<dyn Communicator>, x: &Tensor) -> Result<Tensor> {
    let crossed = across(group, x).map_err(in_decoder)?;
    release(x, &crossed)?;
    Ok(crossed)
}

/// What the backward of a block's first products has of their input, which with sequence parallelism was gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inputs {
    /// All of it, kept from the forward: no further communication.
    #[default]
    Kept,
    /// The own slice; the rest is gathered once more in the backward. Needs tensors on the CPU.
    Regathered,
}

/// f and g with sequence parallelism.
pub(crate) struct SequenceBoundary {
    pub(crate) group: Arc<dyn Communicator>,
    pub(crate) inputs: Inputs,
    /// Between `enter` and `leave` of one block: what was gathered, and the slice that it was gathered from.
    pub(crate) gathered: Mutex<Option<(Tensor, Tensor)>>,
}

impl Boundary for SequenceBoundary {
    fn enter(&self, ctx: &Context, _: Block, x: Tensor) -> Result<Tensor> {
        if ctx.sink.is_none() || self.inputs == Inputs::Kept {
            return crossed(gather, &self.group, &x);
        }
        let whole = gather(&self.group, &x).map_err(in_decoder)?;
        *self.gathered.lock().unwrap_or_else(PoisonError::into_inner) = Some((whole.detach(), x.detach()));
        Ok(whole)
    }

    fn leave(&self, _: &Context, _: Block, partial: Partial) -> Result<Tensor> {
        let gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sum = partial.reduce(|summand| crossed(scatter, &self.group, &summand))?;
        match gathered {
            Some((whole, slice)) => self.forget_until_backward(sum, whole, slice),
            None => Ok(sum),
        }
    }
}

impl SequenceBoundary {
    /// Frees the memory of `whole` now, and fills it again when the backward of `sum` begins: before that of the block's products, which
    /// read it.
    fn forget_until_backward(&self, sum: Tensor, whole: Tensor, slice: Tensor) -> Result<Tensor> {
        release(&whole, &sum)?;
        let group = self.group.clone();
        let value = sum.detach().copy()?;
        let filled = decoder::ops::with_backward("regather", [&sum], value, move |_, _, dy| {
            fill(&whole, group.all_gather(&slice, SEQUENCE)?)?;
            Ok([Some(dy.clone())])
        })?;
        release(&sum, &filled)?;
        Ok(filled)
    }
}
