//! RMS norm (Zhang & Sennrich): `y = x / sqrt(mean(x²) + ε) · w`, over the last dimension.

use super::graph::with_backward;
use super::real::{Elements, Real, by_type, bytes, is_native, sum_over, vectorised, wide};
use super::rows::by_rows;
use super::sink::WeightGradient;
use crate::context::Context;
use crate::error::Result;
use crate::parameter::Parameter;
use candle_core::{D, Device, Result as CandleResult, Tensor};
use ledger::Phase;

/// RMS norm of `x [.., width]` with `weight [width]`; squares are summed in f32 or f64.
///
/// # Errors
/// Shapes that do not fit, or an observer that objects.
pub fn rms_norm(ctx: &Context, x: &Tensor, weight: &Parameter, epsilon: f64) -> Result<Tensor> {
    let value = forward(&x.detach(), weight.value(), epsilon)?;
    // Square, sum, scale, weight: four per element.
    let (flops, moved) = (4 * value.elem_count() as u64, 2 * bytes(&value) + bytes(weight.value()));
    ctx.observe("rms_norm", weight.name(), Phase::Forward, value.dims(), flops, moved)?;
    let Some(sink) = ctx.sink.clone() else { return Ok(value) };
    let (ctx, weight) = (ctx.clone(), weight.clone());
    let attached = with_backward("rms_norm", [x], value, move |[x], _, dy| {
        let (dx, dw) = backward(&x.detach(), weight.value(), &dy.detach().contiguous()?, epsilon)?;
        ctx.observe("rms_norm", weight.name(), Phase::InputGradient, dx.dims(), 2 * flops, 2 * moved)?;
        sink.contribute(weight.name(), WeightGradient::ready(dw))?;
        Ok([Some(dx)])
    })?;
    Ok(attached)
}

fn forward(x: &Tensor, weight: &Tensor, epsilon: f64) -> CandleResult<Tensor> {
    let x = x.contiguous()?;
    if is_native(&x) {
        return by_type!(x, forward_loop(&x, &weight.to_dtype(x.dtype())?, epsilon));
    }
    let wide = wide(&x)?;
    let normed = wide.broadcast_mul(&inverse_rms(&wide, epsilon)?)?;
    normed.broadcast_mul(&weight.to_dtype(wide.dtype())?)?.to_dtype(x.dtype())
}

/// Input gradient, and weight gradient in f32 or wider.
fn backward(x: &Tensor, weight: &Tensor, dy: &Tensor, epsilon: f64) -> CandleResult<(Tensor, Tensor)> {
    let x = x.contiguous()?;
    if is_native(&x) {
        return by_type!(x, backward_loop(&x, &weight.to_dtype(x.dtype())?, dy, epsilon));
    }
    composed_backward(&x, weight, dy, epsilon)
}

fn composed_backward(x: &Tensor, weight: &Tensor, dy: &Tensor, epsilon: f64) -> CandleResult<(Tensor, Tensor)> {
    let (wide, dy) = (wide(x)?, wide(dy)?);
    let inverse = inverse_rms(&wide, epsilon)?;
    let normed = wide.broadcast_mul(&inverse)?;
    let scaled = dy.broadcast_mul(&weight.to_dtype(wide.dtype())?)?;
    let mean = (&scaled * &normed)?.mean_keepdim(D::Minus1)?;
    let dx = scaled.sub(&normed.broadcast_mul(&mean)?)?.broadcast_mul(&inverse)?;
    let width = x.dim(D::Minus1)?;
    let dw = (dy * normed)?.reshape(((), width))?.sum(0)?;
    Ok((dx.to_dtype(x.dtype())?, dw))
}

/// `1 / sqrt(mean(x²) + ε)`, `[.., 1]`.
fn inverse_rms(x: &Tensor, epsilon: f64) -> CandleResult<Tensor> {
    (x.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?.sqrt()?.recip()
}

#[inline(always)]
fn inverse_rms_of<T: Real>(x: &[T], epsilon: T) -> T {
    let mean = sum_over(x, x, |a, b| a * b) / T::from_f64(x.len() as f64);
    T::ONE / Real::sqrt(mean + epsilon)
}

fn forward_loop<T: Real>(x: &Tensor, weight: &Tensor, epsilon: f64) -> CandleResult<Tensor> {
    let (elements, weight) = (Elements::<T>::of(x)?, Elements::<T>::of(weight)?);
    let (elements, weight): (&[T], &[T]) = (&elements, &weight);
    let (width, epsilon) = (weight.len(), T::from_f64(epsilon));
    let mut out = vec![T::ZERO; elements.len()];
    by_rows(&mut out, width, |range, out| {
        let x = &elements[range];
        vectorised(
            #[inline(always)]
            || {
                for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                    let inverse = inverse_rms_of(x, epsilon);
                    for ((out, &x), &w) in out.iter_mut().zip(x).zip(weight) {
                        *out = x * inverse * w;
                    }
                }
            },
        );
    });
    Tensor::from_vec(out, x.shape(), &Device::Cpu)
}

fn backward_loop<T: Real>(x: &Tensor, weight: &Tensor, dy: &Tensor, epsilon: f64) -> CandleResult<(Tensor, Tensor)> {
    let (elements, weight, dy) = (Elements::<T>::of(x)?, Elements::<T>::of(weight)?, Elements::<T>::of(dy)?);
    let (width, epsilon) = (weight.len(), T::from_f64(epsilon));
    let count = T::from_f64(width as f64);
    let mut dx = vec![T::ZERO; elements.len()];
    let mut dw = vec![T::ZERO; width];
    let mut scaled = vec![T::ZERO; width];
    vectorised(
        #[inline(always)]
        || {
            let rows = elements.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width));
            for ((x, dy), dx) in rows {
                let inverse = inverse_rms_of(x, epsilon);
                for (((scaled, dw), (&x, &dy)), &w) in
                    scaled.iter_mut().zip(dw.iter_mut()).zip(x.iter().zip(dy)).zip(weight.iter())
                {
                    *scaled = dy * w;
                    *dw += dy * x * inverse;
                }
                let mean = sum_over(&scaled, x, |a, b| a * b) / count * inverse * inverse;
                for ((dx, &scaled), &x) in dx.iter_mut().zip(scaled.iter()).zip(x) {
                    *dx = (scaled - x * mean) * inverse;
                }
            }
        },
    );
    let dw = {
        let _kind = ledger::scope(ledger::Kind::Gradients);
        Tensor::from_vec(dw, width, &Device::Cpu)?
    };
    Ok((Tensor::from_vec(dx, x.shape(), &Device::Cpu)?, dw))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_loop_and_the_composed_form_agree() {
        let dev = Device::Cpu;
        let x = Tensor::randn(0f64, 1., (2, 3, 37), &dev).unwrap();
        let w = Tensor::randn(1f64, 0.3, 37, &dev).unwrap();
        let dy = Tensor::randn(0f64, 1., (2, 3, 37), &dev).unwrap();
        let (dx, dw) = backward(&x, &w, &dy, 1e-5).unwrap();
        let (dx2, dw2) = composed_backward(&x, &w, &dy, 1e-5).unwrap();
        for (a, b) in [(dx, dx2), (dw, dw2)] {
            let worst = (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
            assert!(worst < 1e-12, "largest difference {worst}");
        }
    }
}
