//! The head and the next-token cross-entropy as one operation.
//!
//! Logits are by far the largest tensor of a training step: `tokens × vocab`. Here they exist once: computed into one
//! buffer, which the loss turns in place into its own gradient, softmax − one-hot. Without a sink they exist only block by
//! block.
//!
//! `rows` has what is done with the logits of a whole vocabulary, `part` with those of a part of it, whose ranks exchange three numbers
//! per row and never a logit.

mod part;
mod rows;

pub use part::{Reduction, VocabularyPart};

use super::graph::with_backward;
use super::linear::product;
use super::product::multiplied;
use super::real::bytes;
use super::sink::WeightGradient;
use crate::context::Context;
use crate::error::Result;
use crate::parameter::Parameter;
use candle_core::{DType, Result as CandleResult, Tensor, bail};
use ledger::Phase;
use rows::loss_and_gradient;

/// A target that does not count: padding, or a prompt that is not trained on.
pub const IGNORED: u32 = u32::MAX;

/// A loss as sum and count, so that batches, micro-batches and ranks add up to the mean over all tokens.
#[derive(Clone, Debug)]
pub struct LossSum {
    /// Σ −log p(target), in nats; a scalar, with its graph.
    pub sum: Tensor,
    /// Targets that count.
    pub count: usize,
}

/// Rows whose logits are computed at a time when no gradient is wanted.
const BLOCK: usize = 128;

/// Cross-entropy of `softmax(x · weightᵀ)` with `targets`; `x [.., hidden]`, weight `[vocab, hidden]`, one target per row of
/// x, [`IGNORED`] ones left out.
///
/// # Errors
/// Shapes that do not fit, a target outside of the vocabulary, or an observer that objects.
pub fn head_cross_entropy(ctx: &Context, x: &Tensor, weight: &Parameter, targets: &[u32]) -> Result<LossSum> {
    let rows = rows_of(x, weight)?;
    check(targets, rows.dim(0)?, weight.value().dim(0)?)?;
    let (sum, d_logits) = if ctx.sink.is_some() {
        let (sum, d_logits) = loss_and_gradient(product(&rows, weight.value())?, targets)?;
        (sum, Some(d_logits))
    } else {
        (loss_by_blocks(&rows, weight.value(), targets)?, None)
    };
    attached(ctx, x, weight, targets, sum, d_logits)
}

/// [`head_cross_entropy`] where `weight [rows of the part, hidden]` is one part of the vocabulary: the same loss on every rank, and
/// **this part's summand** of the gradient of x.
///
/// # Errors
/// As [`head_cross_entropy`], or a reduction failed.
pub fn head_cross_entropy_of_part(
    ctx: &Context,
    x: &Tensor,
    weight: &Parameter,
    targets: &[u32],
    part: &VocabularyPart<'_>,
) -> Result<LossSum> {
    let rows = rows_of(x, weight)?;
    check(targets, rows.dim(0)?, part.vocab)?;
    let logits = product(&rows, weight.value())?;
    let (sum, d_logits) = part::loss_and_gradient(logits, targets, part)?;
    attached(ctx, x, weight, targets, sum, Some(d_logits))
}

/// `[.., hidden]` as a matrix, outside of any graph.
fn rows_of(x: &Tensor, weight: &Parameter) -> CandleResult<Tensor> {
    x.detach().reshape(((), weight.value().dim(1)?))
}

/// The loss `sum` in the graph: its backward multiplies `d_logits` with the weight and with x.
fn attached(
    ctx: &Context,
    x: &Tensor,
    weight: &Parameter,
    targets: &[u32],
    sum: f64,
    d_logits: Option<Tensor>,
) -> Result<LossSum> {
    let (vocab, hidden) = weight.value().dims2()?;
    let count = targets.iter().filter(|&&target| target != IGNORED).count();
    let matrix = 2 * (x.elem_count() * vocab) as u64;
    let logits = (targets.len() * vocab) as u64;
    let moved = bytes(x) + bytes(weight.value()) + logits * x.dtype().size_in_bytes() as u64;
    ctx.observe("head_loss", weight.name(), Phase::Forward, &[targets.len(), vocab], matrix, moved)?;
    let sum = Tensor::new(sum, x.device())?.to_dtype(if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 })?;
    let (Some(sink), Some(d_logits)) = (ctx.sink.clone(), d_logits) else { return Ok(LossSum { sum, count }) };

    let (ctx, weight) = (ctx.clone(), weight.clone());
    let sum = with_backward("head_loss", [x], sum, move |[x], _, dy| {
        let scale = dy.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        let dx = (multiplied(&d_logits, &weight.value().to_dtype(d_logits.dtype())?)? * scale)?.reshape(x.shape())?;
        ctx.observe("head_loss", weight.name(), Phase::InputGradient, dx.dims(), matrix, moved)?;
        let (ctx, name, d_logits, rows) =
            (ctx.clone(), weight.name().clone(), d_logits.clone(), x.detach().reshape(((), hidden))?);
        sink.contribute(
            weight.name(),
            WeightGradient::later(move |sum| {
                // The smaller factor is scaled, not the logits.
                let rows = (rows * scale)?;
                let dw = {
                    let _kind = ledger::scope(ledger::Kind::Gradients);
                    multiplied(&d_logits.t()?, &rows)?
                };
                ctx.observe("head_loss", &name, Phase::WeightGradient, dw.dims(), matrix, moved)?;
                WeightGradient::ready(dw).accumulate(sum)
            }),
        )?;
        Ok([Some(dx)])
    })?;
    Ok(LossSum { sum, count })
}

fn check(targets: &[u32], rows: usize, vocab: usize) -> CandleResult<()> {
    if targets.len() != rows {
        bail!("cross-entropy: {} targets for {rows} rows", targets.len())
    }
    match targets.iter().find(|&&target| target != IGNORED && target as usize >= vocab) {
        Some(target) => bail!("cross-entropy: target {target} is not in the vocabulary of {vocab}"),
        None => Ok(()),
    }
}

fn loss_by_blocks(x: &Tensor, weight: &Tensor, targets: &[u32]) -> CandleResult<f64> {
    let mut sum = 0.;
    for (index, targets) in targets.chunks(BLOCK).enumerate() {
        let logits = product(&x.narrow(0, index * BLOCK, targets.len())?, weight)?;
        sum += loss_and_gradient(logits, targets)?.0;
    }
    Ok(sum)
}
