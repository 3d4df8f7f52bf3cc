//! Looking up token embeddings.

use super::graph::with_backward;
use super::real::{Elements, Real, by_type, bytes, is_native, wide};
use super::sink::WeightGradient;
use crate::context::Context;
use crate::error::Result;
use crate::parameter::Parameter;
use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Result as CandleResult, Tensor, Var};
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

/// `sum + Σ` of each row of `dy [tokens, hidden]` at its id, in f32 or wider; tokens that occur twice are added twice. On
/// CPU the rows are added where the sum lies: candle's `index_add` would copy all of `[vocab, hidden]` first.
fn add_rows(sum: Option<Tensor>, ids: &Tensor, dy: &Tensor, vocab: usize) -> CandleResult<Tensor> {
    let dy = wide(dy)?.contiguous()?;
    let _kind = ledger::scope(ledger::Kind::Gradients);
    let sum = match sum {
        Some(sum) => wide(&sum)?,
        None => Tensor::zeros((vocab, dy.dim(1)?), dy.dtype(), dy.device())?,
    };
    if !is_native(&dy) || sum.dtype() != dy.dtype() || !sum.is_contiguous() {
        return sum.index_add(ids, &dy, 0);
    }
    by_type!(dy, add_rows_in_place(&sum, ids, &dy))?;
    Ok(sum)
}

fn add_rows_in_place<T: Real>(sum: &Tensor, ids: &Tensor, dy: &Tensor) -> CandleResult<()> {
    sum.inplace_op1(&AddRows { ids: ids.to_vec1::<u32>()?, dy: Elements::<T>::of(dy)?, width: dy.dim(1)? })
}

struct AddRows<'a, T> {
    ids: Vec<u32>,
    dy: Elements<'a, T>,
    width: usize,
}

impl<T: Real> InplaceOp1 for AddRows<'_, T> {
    fn name(&self) -> &'static str {
        "add_rows"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> CandleResult<()> {
        let sum = T::elements_mut(storage)?;
        let sum = &mut sum[layout.start_offset()..];
        for (&id, dy) in self.ids.iter().zip(self.dy.chunks_exact(self.width)) {
            let start = id as usize * self.width;
            for (sum, &dy) in sum[start..start + self.width].iter_mut().zip(dy) {
                *sum += dy;
            }
        }
        Ok(())
    }
}
