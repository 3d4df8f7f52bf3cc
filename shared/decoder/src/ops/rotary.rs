//! Rotary position embedding (Su et al., RoFormer), in the half-split form of Hugging Face checkpoints.
//!
//! Element `i` of a head and element `i + head_dim / 2` are rotated by `position · frequency_i`. The backward rotates back.

use super::graph::with_backward;
use super::real::{Elements, Real, by_type, bytes, is_native, vectorised};
use super::rows::by_rows;
use crate::context::Context;
use crate::error::Result;
use candle_core::{D, DType, Device, Result as CandleResult, Tensor};
use ledger::Phase;

/// cos and sin of every token's rotation angles, `[batch · seq, head_dim / 2]` each.
#[derive(Clone, Debug)]
pub struct Rotation {
    cos: Tensor,
    sin: Tensor,
}

impl Rotation {
    /// Angles `position · inverse_frequency` for `positions` (batch-major), computed in f64 and stored as f64 for an f64
    /// model, as f32 otherwise; `factor` multiplies cos and sin (YaRN).
    ///
    /// # Errors
    /// The device has no room.
    pub fn new(
        positions: &[usize],
        inverse_frequencies: &[f64],
        factor: f64,
        dtype: DType,
        device: &Device,
    ) -> CandleResult<Self> {
        let shape = (positions.len(), inverse_frequencies.len());
        let angles = || positions.iter().flat_map(|&p| inverse_frequencies.iter().map(move |&f| p as f64 * f));
        let table = |values: Vec<f64>| {
            let table = Tensor::from_vec(values, shape, &Device::Cpu)?;
            let dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            table.to_dtype(dtype)?.to_device(device)
        };
        Ok(Self {
            cos: table(angles().map(|angle| angle.cos() * factor).collect())?,
            sin: table(angles().map(|angle| angle.sin() * factor).collect())?,
        })
    }

    fn back(&self) -> CandleResult<Self> {
        Ok(Self { cos: self.cos.clone(), sin: self.sin.neg()? })
    }
}

/// Rotates every head of `x [batch, seq, heads, head_dim]` by its token's angles.
///
/// # Errors
/// Shapes that do not fit, or an observer that objects.
pub fn rotate(ctx: &Context, x: &Tensor, rotation: &Rotation) -> Result<Tensor> {
    let value = rotated(&x.detach(), rotation)?;
    // Per pair: four products, two sums.
    let (flops, moved) = (3 * value.elem_count() as u64, 2 * bytes(&value) + 2 * bytes(&rotation.cos));
    ctx.observe("rotary", ctx.unnamed(), Phase::Forward, value.dims(), flops, moved)?;
    if ctx.sink.is_none() {
        return Ok(value);
    }
    let (ctx, rotation) = (ctx.clone(), rotation.clone());
    let attached = with_backward("rotary", [x], value, move |_, _, dy| {
        let dx = rotated(&dy.detach(), &rotation.back()?)?;
        ctx.observe("rotary", ctx.unnamed(), Phase::InputGradient, dx.dims(), flops, moved)?;
        Ok([Some(dx)])
    })?;
    Ok(attached)
}

fn rotated(x: &Tensor, rotation: &Rotation) -> CandleResult<Tensor> {
    let x = x.contiguous()?;
    if is_native(&x) && x.dtype() == rotation.cos.dtype() {
        by_type!(x, rotated_loop(&x, rotation))
    } else {
        composed(&x, rotation)
    }
}

fn rotated_loop<T: Real>(x: &Tensor, rotation: &Rotation) -> CandleResult<Tensor> {
    let (_, _, heads, width) = x.dims4()?;
    let half = width / 2;
    let (elements, cos, sin) =
        (Elements::<T>::of(x)?, Elements::<T>::of(&rotation.cos)?, Elements::<T>::of(&rotation.sin)?);
    let (elements, cos, sin): (&[T], &[T], &[T]) = (&elements, &cos, &sin);
    let mut out = vec![T::ZERO; elements.len()];
    let token = heads * width;
    by_rows(&mut out, token, |range, out| {
        let angles = range.start / token * half..range.end / token * half;
        let (x, cos, sin) = (&elements[range], &cos[angles.clone()], &sin[angles]);
        vectorised(
            #[inline(always)]
            || {
                let tokens = x.chunks_exact(token).zip(out.chunks_exact_mut(token));
                for ((x, out), (cos, sin)) in tokens.zip(cos.chunks_exact(half).zip(sin.chunks_exact(half))) {
                    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                        rotate_head(x, cos, sin, out);
                    }
                }
            },
        );
    });
    Tensor::from_vec(out, x.shape(), &Device::Cpu)
}

#[inline(always)]
fn rotate_head<T: Real>(x: &[T], cos: &[T], sin: &[T], out: &mut [T]) {
    let half = cos.len();
    let ((x1, x2), (out1, out2)) = (x.split_at(half), out.split_at_mut(half));
    let angles = cos.iter().zip(sin);
    for (((out1, out2), (&x1, &x2)), (&cos, &sin)) in out1.iter_mut().zip(out2).zip(x1.iter().zip(x2)).zip(angles) {
        *out1 = x1 * cos - x2 * sin;
        *out2 = x2 * cos + x1 * sin;
    }
}

fn composed(x: &Tensor, rotation: &Rotation) -> CandleResult<Tensor> {
    let (batch, seq, _, width) = x.dims4()?;
    let half = width / 2;
    let table = |table: &Tensor| table.reshape((batch, seq, 1, half));
    let (cos, sin) = (table(&rotation.cos)?, table(&rotation.sin)?);
    let wide = x.to_dtype(cos.dtype())?;
    let (x1, x2) = (wide.narrow(D::Minus1, 0, half)?, wide.narrow(D::Minus1, half, half)?);
    let first = (x1.broadcast_mul(&cos)? - x2.broadcast_mul(&sin)?)?;
    let second = (x2.broadcast_mul(&cos)? + x1.broadcast_mul(&sin)?)?;
    Tensor::cat(&[first, second], D::Minus1)?.to_dtype(x.dtype())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_loop_and_the_composed_form_agree() {
        let x = Tensor::randn(0f64, 1., (2, 3, 4, 10), &Device::Cpu).unwrap();
        let rotation =
            Rotation::new(&[0, 1, 2, 7, 8, 9], &[1., 0.3, 0.1, 0.03, 0.01], 1., DType::F64, &Device::Cpu).unwrap();
        let difference = (rotated(&x, &rotation).unwrap() - composed(&x, &rotation).unwrap()).unwrap();
        assert!(difference.abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap() < 1e-14);
    }
}
