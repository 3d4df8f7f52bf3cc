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
/// # Errors
/// An id ≥ vocab, or an observer that objects.
pub fn embedding(ctx: &Context, ids: &Tensor, weight: &Parameter, dtype: DType) -> Result<Tensor> {
    let (batch, seq) = ids.dims2()?;
    let flat = ids.flatten_all()?;
    let value = weight.value().index_select(&flat, 0)?.to_dtype(dtype)?.reshape((batch, seq, ()))?;
    attached(ctx, weight, value, Looked { rows: flat, tokens: None })
}

/// The same, where `weight` holds the part of the vocabulary that begins with id `first`: zeros for ids of other parts, so that the sum
/// over all parts is the embedding.
///
/// # Errors
/// An observer that objects. Whether an id is in *any* part is for the caller to check.
pub fn embedding_of_part(
    ctx: &Context,
    ids: &Tensor,
    weight: &Parameter,
    first: usize,
    dtype: DType,
) -> Result<Tensor> {
    let (batch, seq) = ids.dims2()?;
    let (width, hidden) = weight.value().dims2()?;
    let row = |id: u32| (id as usize).checked_sub(first).filter(|&row| row < width);
    let all = ids.flatten_all()?.to_vec1::<u32>()?;
    let here = (0u32..).zip(all).filter_map(|(token, id)| Some((token, row(id)? as u32)));
    let (tokens, rows): (Vec<u32>, Vec<u32>) = here.unzip();
    let device = weight.value().device();
    let (count, tokens) = (tokens.len(), Tensor::from_vec(tokens, rows.len(), device)?);
    let rows = Tensor::from_vec(rows, count, device)?;
    let found = weight.value().index_select(&rows, 0)?.to_dtype(dtype)?;
    let zeros = Tensor::zeros((batch * seq, hidden), dtype, device)?;
    let value = if count == 0 { zeros } else { zeros.index_add(&tokens, &found, 0)? };
    attached(ctx, weight, value.reshape((batch, seq, hidden))?, Looked { rows, tokens: Some(tokens) })
}

/// Which rows were looked up.
#[derive(Clone)]
struct Looked {
    rows: Tensor,
    /// For which tokens; `None`: one row for every token.
    tokens: Option<Tensor>,
}

/// The looked-up `value` in the graph. Token ids have no gradient, so the node hangs on a leaf of its own.
fn attached(ctx: &Context, weight: &Parameter, value: Tensor, looked: Looked) -> Result<Tensor> {
    let (vocab, hidden) = weight.value().dims2()?;
    ctx.observe("embedding", weight.name(), Phase::Forward, value.dims(), 0, 2 * bytes(&value))?;
    let Some(sink) = ctx.sink.clone() else { return Ok(value) };
    let leaf = Var::zeros(1, value.dtype(), weight.value().device())?;
    let (ctx, name) = (ctx.clone(), weight.name().clone());
    let attached = with_backward("embedding", [leaf.as_tensor()], value, move |_, _, dy| {
        let dy = dy.detach().reshape(((), hidden))?;
        let (ctx, looked, label) = (ctx.clone(), looked.clone(), name.clone());
        let gradient = WeightGradient::later(move |sum| {
            let dy = match &looked.tokens {
                Some(tokens) => dy.contiguous()?.index_select(tokens, 0)?,
                None => dy,
            };
            let total = add_rows(sum, &looked.rows, &dy, vocab)?;
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
