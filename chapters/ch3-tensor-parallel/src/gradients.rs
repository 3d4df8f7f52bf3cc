//! Which gradients are not yet whole after the backward, and the norm of all of them.
//!
//! A weight that several ranks hold needs a sum if they used it on **different** data: on other heads (norms of q and k, key heads that
//! ranks share) or, with sequence parallelism, on other tokens (norms, and biases that are added after a reduction). Where they used it
//! on the same data each rank has the whole gradient, and a sum would be tp times too large.

use crate::layout::{Held, Layout};
use crate::{Error, Result, TensorParallel};
use candle_core::{DType, Device, Tensor};
use collective::{Communicator, ReduceOp};
use decoder::weights::{Role, WeightSpec};
use std::sync::Arc;
use training::{Named, clip};

/// Over which ranks a gradient is to be summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Summed {
    /// None: it is whole, or the gradient of a part that only this rank holds.
    Nowhere,
    /// Those that hold the same key head.
    Replicas,
    /// All.
    Everywhere,
}

/// Over which ranks the gradients of weights for `role` are summed.
pub fn summed_over(layout: &Layout, role: Role, sequence_parallel: bool) -> Summed {
    match role {
        Role::QueryNorm | Role::KeyNorm => Summed::Everywhere,
        Role::AttentionNorm | Role::FeedForwardNorm | Role::FinalNorm | Role::OutputBias | Role::DownBias
            if sequence_parallel =>
        {
            Summed::Everywhere
        }
        _ if matches!(layout.held(role), Held::Grouped { .. }) => Summed::Replicas,
        _ => Summed::Nowhere,
    }
}

impl TensorParallel {
    /// Makes `gradients`, as a backward left them, whole: afterwards each is that of the part of the weight that is held here. One
    /// all-reduce over each group, of all gradients that need it in the order of names.
    ///
    /// # Errors
    /// A gradient of no weight of the model, or another rank failed.
    pub fn synchronise(&self, gradients: &mut Named) -> Result<()> {
        let groups = [(Summed::Replicas, self.replicas.as_ref()), (Summed::Everywhere, Some(&self.group))];
        for (summed, group) in groups {
            let Some(group) = group else { continue };
            let mut names = Vec::new();
            for name in gradients.keys() {
                let role = self.weight(name)?.role;
                if (self.core.summed_over)(&self.layout, role, self.is_sequence_parallel()) == summed {
                    names.push(name.clone());
                }
            }
            sum_together(group.as_ref(), gradients, &names)?;
        }
        Ok(())
    }

    /// Sum of squares of every element of the full gradient, once: parts that several ranks hold are counted by the first of them.
    ///
    /// # Errors
    /// A gradient is not finite (names `step`), or another rank failed.
    pub fn sum_of_squares(&self, gradients: &Named, step: u64) -> Result<f64> {
        let mut own = Named::new();
        for (name, gradient) in gradients {
            if self.counts(self.weight(name)?) {
                own.insert(name.clone(), gradient.clone());
            }
        }
        let own = Tensor::new(&[clip::sum_of_squares(&own, step)?], &Device::Cpu)?;
        Ok(self.group.all_reduce(&own, ReduceOp::Sum)?.to_vec1::<f64>()?[0])
    }

    /// Whether this rank is the first that holds its part of `weight`.
    fn counts(&self, weight: &WeightSpec) -> bool {
        let rank = self.group.rank();
        match self.layout.held(weight.role) {
            Held::Cut { .. } => true,
            Held::Grouped { .. } => rank.is_multiple_of(self.layout.replicas()),
            Held::Replicated => rank == 0,
        }
    }

    pub(crate) fn weight(&self, name: &str) -> Result<&WeightSpec> {
        self.layout.weight(name).ok_or_else(|| Error::Unknown { name: name.to_owned() })
    }
}

/// One all-reduce of the gradients of these names, laid end to end, in f32 or wider.
fn sum_together(group: &dyn Communicator, gradients: &mut Named, names: &[Arc<str>]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let dtype = |gradient: &Tensor| if gradient.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let together = {
        let _kind = ledger::scope(ledger::Kind::Communication);
        let flat = names.iter().map(|name| gradients[name].flatten_all()?.to_dtype(dtype(&gradients[name])));
        Tensor::cat(&flat.collect::<candle_core::Result<Vec<_>>>()?, 0)?
    };
    group.all_reduce_in_place(&together, ReduceOp::Sum)?;
    let _kind = ledger::scope(ledger::Kind::Gradients);
    let mut first = 0;
    for name in names {
        let Some(gradient) = gradients.get_mut(name) else { continue };
        let own = together.narrow(0, first, gradient.elem_count())?.force_contiguous()?;
        first += gradient.elem_count();
        *gradient = own.reshape(gradient.shape())?.to_dtype(gradient.dtype())?;
    }
    Ok(())
}
