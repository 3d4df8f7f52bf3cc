//! The head and the next-token cross-entropy as one operation.
//!
//! Logits are by far the largest tensor of a training step: `tokens × vocab`. Here they exist once: computed into one
//! buffer, which the loss turns in place into its own gradient, softmax − one-hot. Without a sink they exist only block by
//! block.

use super::graph::with_backward;
use super::linear::product;
use super::real::{Elements, Real, by_type, bytes, largest, sum_over, vectorised};
use super::sink::WeightGradient;
use crate::context::Context;
use crate::error::Result;
use crate::parameter::Parameter;
use candle_core::{D, DType, Result as CandleResult, Tensor, bail};
use ledger::Phase;

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
    let (vocab, hidden) = weight.value().dims2()?;
    let rows = x.detach().reshape(((), hidden))?;
    check(targets, rows.dim(0)?, vocab)?;
    let count = targets.iter().filter(|&&target| target != IGNORED).count();
    let (sum, d_logits) = if ctx.sink.is_some() {
        let (sum, d_logits) = loss_and_gradient(product(&rows, weight.value())?, targets)?;
        (sum, Some(d_logits))
    } else {
        (loss_by_blocks(&rows, weight.value(), targets)?, None)
    };
    let matrix = 2 * (rows.elem_count() * vocab) as u64;
    let logits = (targets.len() * vocab) as u64;
    let moved = bytes(x) + bytes(weight.value()) + logits * x.dtype().size_in_bytes() as u64;
    ctx.observe("head_loss", weight.name(), Phase::Forward, &[targets.len(), vocab], matrix + 4 * logits, moved)?;
    let sum = Tensor::new(sum, x.device())?.to_dtype(if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 })?;
    let (Some(sink), Some(d_logits)) = (ctx.sink.clone(), d_logits) else { return Ok(LossSum { sum, count }) };

    let (ctx, weight) = (ctx.clone(), weight.clone());
    let sum = with_backward("head_loss", [x], sum, move |[x], _, dy| {
        let scale = dy.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        let dx = (d_logits.matmul(&weight.value().to_dtype(d_logits.dtype())?)? * scale)?.reshape(x.shape())?;
        ctx.observe("head_loss", weight.name(), Phase::InputGradient, dx.dims(), matrix, moved)?;
        let (ctx, name, d_logits, rows) =
            (ctx.clone(), weight.name().clone(), d_logits.clone(), x.detach().reshape(((), hidden))?);
        sink.contribute(
            weight.name(),
            WeightGradient::later(move |sum| {
                let dw = {
                    let _kind = ledger::scope(ledger::Kind::Gradients);
                    // The smaller factor is scaled, not the logits.
                    d_logits.t()?.matmul(&(rows * scale)?)?
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

/// Loss sum, and `softmax − one-hot` per row (zeros where ignored), from `logits [rows, vocab]`.
fn loss_and_gradient(logits: Tensor, targets: &[u32]) -> CandleResult<(f64, Tensor)> {
    if logits.device().is_cpu() && matches!(logits.dtype(), DType::F32 | DType::F64) {
        by_type!(logits, loop_in_place(logits, targets))
    } else {
        composed(&logits, targets)
    }
}

fn composed(logits: &Tensor, targets: &[u32]) -> CandleResult<(f64, Tensor)> {
    let wide = if logits.dtype() == DType::F64 { logits.clone() } else { logits.to_dtype(DType::F32)? };
    let (rows, vocab) = wide.dims2()?;
    let kept: Vec<f32> = targets.iter().map(|&t| f32::from(t != IGNORED)).collect();
    let ids: Vec<u32> = targets.iter().map(|&t| if t == IGNORED { 0 } else { t }).collect();
    let kept = Tensor::from_vec(kept, (rows, 1), wide.device())?.to_dtype(wide.dtype())?;
    let ids = Tensor::from_vec(ids, (rows, 1), wide.device())?;
    let log_p = candle_nn::ops::log_softmax(&wide, D::Minus1)?;
    let loss = (log_p.gather(&ids, 1)? * &kept)?.sum_all()?.neg()?;
    let columns = Tensor::arange(0u32, vocab as u32, wide.device())?;
    let one_hot = columns.unsqueeze(0)?.broadcast_eq(&ids)?.to_dtype(wide.dtype())?;
    let gradient = (log_p.exp()? - one_hot)?.broadcast_mul(&kept)?;
    Ok((loss.to_dtype(DType::F64)?.to_scalar::<f64>()?, gradient.to_dtype(logits.dtype())?))
}

/// The logits' buffer becomes the gradient's.
struct SoftmaxMinusOneHot<'a> {
    targets: &'a [u32],
    sum: std::sync::Mutex<f64>,
}

impl candle_core::InplaceOp1 for SoftmaxMinusOneHot<'_> {
    fn name(&self) -> &'static str {
        "softmax_minus_one_hot"
    }

    fn cpu_fwd(&self, storage: &mut candle_core::CpuStorage, layout: &candle_core::Layout) -> CandleResult<()> {
        let (_, vocab) = layout.shape().dims2()?;
        let Some((0, end)) = layout.contiguous_offsets() else { bail!("logits must be contiguous") };
        let sum = match storage {
            candle_core::CpuStorage::F32(data) => rows_in_place(&mut data[..end], vocab, self.targets),
            candle_core::CpuStorage::F64(data) => rows_in_place(&mut data[..end], vocab, self.targets),
            _ => bail!("logits are f32 or f64"),
        };
        if let Ok(mut total) = self.sum.lock() {
            *total = sum;
        }
        Ok(())
    }
}

fn loop_in_place<T: Real>(logits: Tensor, targets: &[u32]) -> CandleResult<(f64, Tensor)> {
    Elements::<T>::of(&logits)?;
    let op = SoftmaxMinusOneHot { targets, sum: std::sync::Mutex::new(0.) };
    logits.inplace_op1(&op)?;
    let sum = op.sum.into_inner().unwrap_or(f64::NAN);
    Ok((sum, logits))
}

/// −log softmax(row)[target], summed in f64 over the rows; each row becomes its gradient.
fn rows_in_place<T: Real>(logits: &mut [T], vocab: usize, targets: &[u32]) -> f64 {
    let mut total = 0.;
    for (row, &target) in logits.chunks_exact_mut(vocab).zip(targets) {
        if target == IGNORED {
            row.fill(T::ZERO);
            continue;
        }
        let target = target as usize;
        let own = row[target].to_f64();
        let (largest, sum) = vectorised(
            #[inline(always)]
            || {
                let largest = largest(row);
                for value in row.iter_mut() {
                    *value = Real::exp(*value - largest);
                }
                let sum = sum_over(row, row, |a, _| a);
                let inverse = T::ONE / sum;
                for value in row.iter_mut() {
                    *value *= inverse;
                }
                (largest, sum)
            },
        );
        row[target] -= T::ONE;
        total += sum.to_f64().ln() + largest.to_f64() - own;
    }
    total
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use candle_core::Device;

    #[test]
    fn the_loop_and_the_composed_form_agree_and_ignored_targets_count_nothing() {
        let logits = Tensor::randn(0f64, 3., (5, 41), &Device::Cpu).unwrap();
        let targets = [3, IGNORED, 40, 0, IGNORED];
        let (loss, gradient) = composed(&logits, &targets).unwrap();
        let (loss2, gradient2) = loss_and_gradient(logits.copy().unwrap(), &targets).unwrap();
        assert!((loss - loss2).abs() < 1e-12, "{loss} {loss2}");
        let worst = (gradient - &gradient2).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
        assert!(worst < 1e-14, "largest difference {worst}");
        assert_eq!(gradient2.get(1).unwrap().to_vec1::<f64>().unwrap(), vec![0.; 41]);
    }
}
