//! The update rules composed of tensor operations: for devices that have no fused form, and as the readable one.
//!
//! Same operations in the same order as [`fused`](super::fused), several passes over memory and a few temporaries of a tensor's size.

use super::{AdamWStep, SgdStep};
use crate::elements::overwrite;
use candle_core::{Result, Tensor};

/// One step of AdamW on `parameter`, `first` and `second`, all of one type.
pub(super) fn adamw(
    parameter: &Tensor,
    first: &Tensor,
    second: &Tensor,
    gradient: &Tensor,
    step: &AdamWStep,
) -> Result<()> {
    let gradient = (gradient.detach().to_dtype(parameter.dtype())? * step.scale)?;
    let old = parameter.detach();
    let m = (first + ((&gradient - first)? * step.first_weight)?)?;
    let v = ((second * step.beta2)? + (gradient.sqr()? * step.second_weight)?)?;
    let root = ((v.sqrt()? * step.root_correction)? + step.epsilon)?;
    let new = ((old * step.keep)? - ((&m * step.size)? / root)?)?;
    overwrite(first, &m)?;
    overwrite(second, &v)?;
    overwrite(parameter, &new)
}

/// One step of SGD on `parameter`.
pub(super) fn sgd(parameter: &Tensor, gradient: &Tensor, step: &SgdStep) -> Result<()> {
    let gradient = (gradient.detach().to_dtype(parameter.dtype())? * step.scale)?;
    overwrite(parameter, &(parameter.detach() - (gradient * step.learning_rate)?)?)
}

/// Writes the f32 `master` weight, rounded, into the low-precision `parameter`.
pub(super) fn round(parameter: &Tensor, master: &Tensor) -> Result<()> {
    overwrite(parameter, &master.to_dtype(parameter.dtype())?)
}
