//! The gate of the feed-forward network: `activation(gate) · up` (SwiGLU for silu; Shazeer, GLU variants).

use super::graph::with_backward;
use super::real::{Elements, Real, by_type, bytes, is_native, vectorised, wide};
use crate::config::Activation;
use crate::context::Context;
use crate::error::Result;
use candle_core::{Device, Result as CandleResult, Tensor};
use ledger::Phase;

/// `activation(gate) · up`, both `[.., ffn]`.
///
/// # Errors
/// Shapes that differ, or an observer that objects.
pub fn gated(ctx: &Context, activation: Activation, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let value = forward(activation, &gate.detach(), &up.detach())?;
    // exp, sum, quotient, two products.
    let (flops, moved) = (5 * value.elem_count() as u64, 3 * bytes(&value));
    ctx.observe("gated", ctx.unnamed(), Phase::Forward, value.dims(), flops, moved)?;
    if ctx.sink.is_none() {
        return Ok(value);
    }
    let ctx = ctx.clone();
    let attached = with_backward("gated", [gate, up], value, move |[gate, up], _, dy| {
        let (d_gate, d_up) = backward(activation, &gate.detach(), &up.detach(), &dy.detach().contiguous()?)?;
        ctx.observe("gated", ctx.unnamed(), Phase::InputGradient, dy.dims(), 2 * flops, moved + 2 * bytes(dy))?;
        Ok([Some(d_gate), Some(d_up)])
    })?;
    Ok(attached)
}

fn forward(activation: Activation, gate: &Tensor, up: &Tensor) -> CandleResult<Tensor> {
    if activation == Activation::Silu && is_native(gate) {
        let (gate, up) = (gate.contiguous()?, up.contiguous()?);
        return by_type!(gate, silu_loop(&gate, &up));
    }
    let activated = match activation {
        Activation::Silu => gate.silu()?,
        Activation::Gelu => gate.gelu_erf()?,
        Activation::GeluTanh => gate.gelu()?,
    };
    activated * up
}

/// Gradients of gate and up.
fn backward(activation: Activation, gate: &Tensor, up: &Tensor, dy: &Tensor) -> CandleResult<(Tensor, Tensor)> {
    if activation == Activation::Silu && is_native(gate) {
        let (gate, up) = (gate.contiguous()?, up.contiguous()?);
        return by_type!(gate, silu_backward_loop(&gate, &up, dy));
    }
    composed_backward(activation, gate, up, dy)
}

fn composed_backward(
    activation: Activation,
    gate: &Tensor,
    up: &Tensor,
    dy: &Tensor,
) -> CandleResult<(Tensor, Tensor)> {
    let (x, up, dy, dtype) = (wide(gate)?, wide(up)?, wide(dy)?, gate.dtype());
    let (value, slope) = match activation {
        Activation::Silu => silu_and_slope(&x)?,
        Activation::Gelu => gelu_and_slope(&x)?,
        Activation::GeluTanh => gelu_tanh_and_slope(&x)?,
    };
    let d_gate = (&dy * up)?.mul(&slope)?;
    let d_up = (dy * value)?;
    Ok((d_gate.to_dtype(dtype)?, d_up.to_dtype(dtype)?))
}

/// `x·σ(x)` and its derivative `σ(x)·(1 + x·(1 − σ(x)))`.
fn silu_and_slope(x: &Tensor) -> CandleResult<(Tensor, Tensor)> {
    let sigmoid = (x.neg()?.exp()? + 1.)?.recip()?;
    let slope = (x * (1. - &sigmoid)?)?.affine(1., 1.)?.mul(&sigmoid)?;
    Ok(((x * sigmoid)?, slope))
}

/// `x·Φ(x)` and its derivative `Φ(x) + x·φ(x)`.
fn gelu_and_slope(x: &Tensor) -> CandleResult<(Tensor, Tensor)> {
    let cdf = ((x * std::f64::consts::FRAC_1_SQRT_2)?.erf()? + 1.)?.affine(0.5, 0.)?;
    let density = (x.sqr()? * -0.5)?.exp()?.affine(1. / (2. * std::f64::consts::PI).sqrt(), 0.)?;
    let slope = (&cdf + (x * density)?)?;
    Ok(((x * cdf)?, slope))
}

/// `x/2·(1 + tanh u)`, u = √(2/π)·(x + 0.044715·x³), and its derivative.
fn gelu_tanh_and_slope(x: &Tensor) -> CandleResult<(Tensor, Tensor)> {
    let scale = (2. / std::f64::consts::PI).sqrt();
    let square = x.sqr()?;
    let tanh = (x * square.affine(0.044_715, 1.)?)?.affine(scale, 0.)?.tanh()?;
    let du = square.affine(3. * 0.044_715 * scale, scale)?;
    let half = tanh.affine(0.5, 0.5)?;
    let slope = (&half + (x * (1. - tanh.sqr()?)?)?.mul(&du)?.affine(0.5, 0.)?)?;
    Ok(((x * half)?, slope))
}

fn silu_loop<T: Real>(gate: &Tensor, up: &Tensor) -> CandleResult<Tensor> {
    let (g, u) = (Elements::<T>::of(gate)?, Elements::<T>::of(up)?);
    let mut out = vec![T::ZERO; g.len()];
    vectorised(
        #[inline(always)]
        || {
            for ((out, &g), &u) in out.iter_mut().zip(g.iter()).zip(u.iter()) {
                *out = g * u / (T::ONE + Real::exp(-g));
            }
        },
    );
    Tensor::from_vec(out, gate.shape(), &Device::Cpu)
}

fn silu_backward_loop<T: Real>(gate: &Tensor, up: &Tensor, dy: &Tensor) -> CandleResult<(Tensor, Tensor)> {
    let (g, u, dy) = (Elements::<T>::of(gate)?, Elements::<T>::of(up)?, Elements::<T>::of(dy)?);
    let (mut d_gate, mut d_up) = (vec![T::ZERO; g.len()], vec![T::ZERO; g.len()]);
    vectorised(
        #[inline(always)]
        || {
            let gradients = d_gate.iter_mut().zip(d_up.iter_mut());
            for (((d_gate, d_up), (&g, &u)), &dy) in gradients.zip(g.iter().zip(u.iter())).zip(dy.iter()) {
                let sigmoid = T::ONE / (T::ONE + Real::exp(-g));
                *d_gate = dy * u * sigmoid * (T::ONE + g * (T::ONE - sigmoid));
                *d_up = dy * g * sigmoid;
            }
        },
    );
    let tensor = |values| Tensor::from_vec(values, gate.shape(), &Device::Cpu);
    Ok((tensor(d_gate)?, tensor(d_up)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use candle_core::DType;

    /// Finite differences, silu at exactly 0 included.
    #[test]
    fn every_activation_has_the_slope_of_its_value() {
        let points = vec![0f64, -0.5, 0.7, 3., -4., 1e-3];
        let n = points.len();
        let gate = Tensor::from_vec(points, n, &Device::Cpu).unwrap();
        let up = Tensor::ones(n, DType::F64, &Device::Cpu).unwrap();
        for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
            let step = 1e-5;
            let above = forward(activation, &(&gate + step).unwrap(), &up).unwrap();
            let below = forward(activation, &(&gate - step).unwrap(), &up).unwrap();
            let numeric = ((above - below).unwrap() / (2. * step)).unwrap();
            for (d_gate, _) in [
                backward(activation, &gate, &up, &up).unwrap(),
                composed_backward(activation, &gate, &up, &up).unwrap(),
            ] {
                let worst = (d_gate - &numeric).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
                assert!(worst < 1e-9, "{activation:?}: largest difference {worst}");
            }
        }
    }
}
