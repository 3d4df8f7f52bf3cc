//! The logits of a whole vocabulary, row by row.

use super::IGNORED;
use crate::ops::real::{Elements, Real, by_type, is_native, largest, sum_over, vectorised, wide};
use candle_core::{D, DType, Result as CandleResult, Tensor, bail};

/// Loss sum, and `softmax − one-hot` per row (zeros where ignored), from `logits [rows, vocab]`.
pub(super) fn loss_and_gradient(logits: Tensor, targets: &[u32]) -> CandleResult<(f64, Tensor)> {
    if is_native(&logits) { by_type!(logits, loop_in_place(logits, targets)) } else { composed(&logits, targets) }
}

fn composed(logits: &Tensor, targets: &[u32]) -> CandleResult<(f64, Tensor)> {
    let wide = wide(logits)?;
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
                let sum = exponentials(row, largest);
                scale(row, T::ONE / sum);
                (largest, sum)
            },
        );
        row[target] -= T::ONE;
        total += sum.to_f64().ln() + largest.to_f64() - own;
    }
    total
}

/// Each logit becomes e^(logit − largest); returns their sum.
#[inline(always)]
pub(super) fn exponentials<T: Real>(row: &mut [T], largest: T) -> T {
    for value in row.iter_mut() {
        *value = Real::exp(*value - largest);
    }
    sum_over(row, row, |a, _| a)
}

#[inline(always)]
pub(super) fn scale<T: Real>(row: &mut [T], factor: T) {
    for value in row.iter_mut() {
        *value *= factor;
    }
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
