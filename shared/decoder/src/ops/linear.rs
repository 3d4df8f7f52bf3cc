//! The linear layer `y = x · Wᵀ`: almost all of a decoder's arithmetic.
//!
//! Its backward is in two halves that need not run together: the input gradient `dx = dy · W`, which the layer before
//! waits for, and the weight gradient `dW = dyᵀ · x`, which only the optimiser waits for. The first is returned, the
//! second is handed to the sink as something it may compute now or later.

use super::gemv::{FEW_ROWS, few_rows};
use super::graph::with_backward;
use super::product::multiplied;
use super::real::{bytes, is_native};
use super::sink::WeightGradient;
use crate::context::Context;
use crate::error::Result;
use crate::parameter::Parameter;
use candle_core::{DType, Result as CandleResult, Tensor};
use ledger::Phase;

/// `x [.., in] · weightᵀ → [.., out]`, weight `[out, in]`.
///
/// On CPU the result has the type of `x` (f32 or f64) whatever the weight is stored in; products and sums are f32 or f64.
///
/// # Errors
/// Shapes that do not fit, or an observer that objects.
pub fn linear(ctx: &Context, x: &Tensor, weight: &Parameter) -> Result<Tensor> {
    let value = product(x, weight.value())?;
    let work = Work { rows: rows(x)?, inputs: weight.value().dim(1)?, outputs: weight.value().dim(0)? };
    ctx.observe(
        "linear",
        weight.name(),
        Phase::Forward,
        value.dims(),
        work.flops(),
        bytes(x) + bytes(weight.value()) + bytes(&value),
    )?;
    let Some(sink) = ctx.sink.clone() else { return Ok(value) };
    let (ctx, weight) = (ctx.clone(), weight.clone());
    let attached = with_backward("linear", [x], value, move |[x], _, dy| {
        let dy = dy.contiguous()?;
        let dx = input_gradient(&dy, weight.value(), x)?;
        let moved = bytes(&dy) + bytes(weight.value()) + bytes(&dx);
        ctx.observe("linear", weight.name(), Phase::InputGradient, dx.dims(), work.flops(), moved)?;
        let (ctx, name, x) = (ctx.clone(), weight.name().clone(), x.detach());
        sink.contribute(
            weight.name(),
            WeightGradient::later(move |sum| {
                let dw = {
                    let _kind = ledger::scope(ledger::Kind::Gradients);
                    weight_gradient(&dy, &x)?
                };
                let moved = bytes(&dy) + bytes(&x) + bytes(&dw);
                ctx.observe("linear", &name, Phase::WeightGradient, dw.dims(), work.flops(), moved)?;
                WeightGradient::ready(dw).accumulate(sum)
            }),
        )?;
        Ok([Some(dx)])
    })?;
    Ok(attached)
}

#[derive(Clone, Copy)]
struct Work {
    rows: usize,
    inputs: usize,
    outputs: usize,
}

impl Work {
    /// A multiply and an add per weight element and row; the same for each half of the backward.
    fn flops(self) -> u64 {
        2 * self.rows as u64 * self.inputs as u64 * self.outputs as u64
    }
}

/// Rows of a tensor seen as a matrix: all its dimensions but the last.
fn rows(x: &Tensor) -> CandleResult<usize> {
    let width = x.dim(candle_core::D::Minus1)?;
    Ok(x.elem_count().checked_div(width).unwrap_or(0))
}

fn flattened(x: &Tensor) -> CandleResult<Tensor> {
    let width = x.dim(candle_core::D::Minus1)?;
    x.reshape(((), width))?.contiguous()
}

/// `x · weightᵀ`, outside of any graph.
pub(super) fn product(x: &Tensor, weight: &Tensor) -> CandleResult<Tensor> {
    let mut shape = x.dims().to_vec();
    let (outputs, inputs) = weight.dims2()?;
    match shape.last_mut() {
        Some(width) if *width == inputs => *width = outputs,
        _ => candle_core::bail!("linear: input {:?} does not fit weight {:?}", x.shape(), weight.shape()),
    }
    let x = flattened(&x.detach())?;
    let weight = weight.detach();
    let value = if is_native(&x) && x.dtype() == DType::F32 && x.dim(0)? <= FEW_ROWS {
        few_rows(&x, &weight)?
    } else if x.dtype() == weight.dtype() {
        multiplied(&x, &weight.t()?)?
    } else {
        let blocks: Vec<Tensor> =
            widened(&weight, x.dtype()).map(|block| multiplied(&x, &block?.t()?)).collect::<CandleResult<_>>()?;
        Tensor::cat(&blocks, 1)?
    };
    value.reshape(shape)
}

/// `dx = dy · weight`, in the shape and type of `x`.
fn input_gradient(dy: &Tensor, weight: &Tensor, x: &Tensor) -> CandleResult<Tensor> {
    let (dy, weight) = (flattened(&dy.detach())?, weight.detach());
    let dx = if dy.dtype() == weight.dtype() {
        multiplied(&dy, &weight)?
    } else {
        let mut first = 0;
        let mut sum: Option<Tensor> = None;
        for block in widened(&weight, dy.dtype()) {
            let block = block?;
            let part = multiplied(&dy.narrow(1, first, block.dim(0)?)?, &block)?;
            first += block.dim(0)?;
            sum = Some(match sum {
                None => part,
                Some(sum) => (sum + part)?,
            });
        }
        sum.ok_or_else(|| candle_core::Error::Msg("linear: a weight without rows".into()))?
    };
    dx.reshape(x.shape())
}

/// `dyᵀ · x`, in the type of the activations.
fn weight_gradient(dy: &Tensor, x: &Tensor) -> CandleResult<Tensor> {
    multiplied(&flattened(&dy.detach())?.t()?, &flattened(x)?)
}

/// Weights stored narrower than the activations are widened in blocks of rows, so that the wide copy stays small.
fn widened(weight: &Tensor, dtype: DType) -> impl Iterator<Item = CandleResult<Tensor>> {
    const BLOCK: usize = 1 << 20;
    let (outputs, inputs) = weight.dims2().unwrap_or((0, 1));
    let block = (BLOCK / inputs.max(1)).clamp(1, outputs.max(1));
    let weight = weight.clone();
    (0..outputs).step_by(block).map(move |first| {
        let _kind = ledger::scope(ledger::Kind::Workspace);
        weight.narrow(0, first, block.min(outputs - first))?.to_dtype(dtype)
    })
}
