//! Adding a bias.

use super::graph::with_backward;
use super::real::{bytes, wide};
use super::sink::WeightGradient;
use crate::context::Context;
use crate::error::Result;
use crate::parameter::Parameter;
use candle_core::Tensor;
use ledger::Phase;

/// `x [.., width] + bias [width]`.
///
/// # Errors
/// Shapes that do not fit, or an observer that objects.
pub fn add_bias(ctx: &Context, x: &Tensor, bias: &Parameter) -> Result<Tensor> {
    let value = x.detach().broadcast_add(&bias.value().to_dtype(x.dtype())?)?;
    let (flops, moved) = (value.elem_count() as u64, 2 * bytes(&value) + bytes(bias.value()));
    ctx.observe("bias", bias.name(), Phase::Forward, value.dims(), flops, moved)?;
    let Some(sink) = ctx.sink.clone() else { return Ok(value) };
    let name = bias.name().clone();
    let attached = with_backward("bias", [x], value, move |_, _, dy| {
        let width = dy.dim(candle_core::D::Minus1)?;
        let gradient = wide(&dy.detach().reshape(((), width))?)?.sum(0)?;
        sink.contribute(&name, WeightGradient::ready(gradient))?;
        Ok([Some(dy.clone())])
    })?;
    Ok(attached)
}
