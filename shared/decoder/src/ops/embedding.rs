//! Looking up token embeddings.

use super::graph::with_backward;
use super::real::{bytes, wide};
use super::sink::WeightGradient;
use crate::context::Context;
use crate::error::Result;
use crate::parameter::Parameter;
use candle_core::{DType, Result as CandleResult, Tensor, Var};
use ledger::Phase;

/// Rows `ids` of `weight [vocab, hidden]`, as `[batch, seq, hidden]` of type `dtype`; `ids` is u32 `[batch, seq]`.
///
/// Token ids have no gradient, so the node hangs in the graph on a leaf of its own.
///
/// # Errors
/// An id ≥ vocab, or an observer that objects.
pub fn embedding(ctx: &Context, ids: &Tensor, weight: &Parameter, dtype: DType) -> Result<Tensor> {
    let (batch, seq) = ids.dims2()?;
    let (vocab, hidden) = weight.value().dims2()?;
    let flat = ids.flatten_all()?;
    let value = weight.value().index_select(&flat, 0)?.to_dtype(dtype)?.reshape((batch, seq, hidden))?;
    ctx.observe("embedding", weight.name(), Phase::Forward, value.dims(), 0, 2 * bytes(&value))?;
    let Some(sink) = ctx.sink.clone() else { return Ok(value) };
    let leaf = Var::zeros(1, dtype, weight.value().device())?;
    let (ctx, name) = (ctx.clone(), weight.name().clone());
    let attached = with_backward("embedding", [leaf.as_tensor()], value, move |_, _, dy| {
        let dy = dy.detach().reshape(((), hidden))?;
        let (ctx, flat, label) = (ctx.clone(), flat.clone(), name.clone());
        let gradient = WeightGradient::later(move |sum| {
            let total = add_rows(sum, &flat, &dy, vocab)?;
            let (flops, moved) = (dy.elem_count() as u64, 3 * bytes(&dy));
            ctx.observe("embedding", &label, Phase::WeightGradient, total.dims(), flops, moved)?;
            Ok(total)
        });
        sink.contribute(&name, gradient)?;
        Ok([None])
    })?;
    Ok(attached)
}

/// `sum + Σ` of each row of `dy [tokens, hidden]` at its id, in f32 or wider; tokens that occur twice are added twice.
fn add_rows(sum: Option<Tensor>, ids: &Tensor, dy: &Tensor, vocab: usize) -> CandleResult<Tensor> {
    let _kind = ledger::scope(ledger::Kind::Gradients);
    let dy = wide(dy)?;
    let sum = match sum {
        Some(sum) => wide(&sum)?,
        None => Tensor::zeros((vocab, dy.dim(1)?), dy.dtype(), dy.device())?,
    };
    sum.index_add(ids, &dy.contiguous()?, 0)
}
