//! Clipping by the global norm (Pascanu et al., 2013).
//!
//! The norm is taken over *all* gradients as one long vector, once per optimiser step, on the synchronised gradient. Nothing is
//! rewritten: the coefficient is handed to [`Optimiser::step`](crate::optimiser::Optimiser::step) as its `scale`, which multiplies
//! each gradient as it is read. A rank that owns a part of the gradients sums its own squares, reduces the sum over the
//! ranks, and takes the root of that.

use crate::{Error, Named, Result, elements};
use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};

/// Added to the norm before dividing, as PyTorch's `clip_grad_norm_` does.
const EPSILON: f64 = 1e-6;

/// Sum of squares of all elements of all gradients, in f64, tensor by tensor in the order of names.
///
/// # Errors
/// A sum that is not finite names `step` and the first tensor with a NaN or an infinity.
pub fn sum_of_squares(gradients: &Named, step: u64) -> Result<f64> {
    let mut total = 0.0;
    for (name, gradient) in gradients {
        let squares = squares_of(gradient)?;
        if !squares.is_finite() {
            let value = if squares.is_nan() { "NaN" } else { "an infinity" };
            return Err(Error::NotFinite { step, name: format!("the gradient of {name}"), value });
        }
        total += squares;
    }
    Ok(total)
}

/// Euclidean norm of all gradients together.
///
/// # Errors
/// As [`sum_of_squares`].
pub fn global_norm(gradients: &Named, step: u64) -> Result<f64> {
    Ok(sum_of_squares(gradients, step)?.sqrt())
}

/// What each gradient is multiplied by, so that their norm is at most `max`: min(1, max / (norm + 10⁻⁶)).
///
/// # Errors
/// `max` is not positive. (Infinity is: it never clips.)
pub fn coefficient(norm: f64, max: f64) -> Result<f64> {
    if max.is_nan() || max <= 0.0 {
        return Err(Error::setting("clipping norm", max, "a positive number, such as 1.0"));
    }
    Ok((max / (norm + EPSILON)).min(1.0))
}

/// An error if the loss is NaN or infinite.
///
/// # Errors
/// Names `step`.
pub fn check_loss(loss: f64, step: u64) -> Result<()> {
    if loss.is_finite() {
        return Ok(());
    }
    let value = if loss.is_nan() { "the value NaN" } else { "an infinite value" };
    Err(Error::NotFinite { step, name: "the loss".into(), value })
}

fn squares_of(gradient: &Tensor) -> Result<f64> {
    let squares = match (gradient.device(), gradient.dtype()) {
        (Device::Cpu, DType::F32) => elements::read(gradient, |values: &[f32]| squares(values, |value| value.into()))?,
        (Device::Cpu, DType::F64) => elements::read(gradient, |values: &[f64]| squares(values, |value| value))?,
        (Device::Cpu, DType::BF16) => {
            elements::read(gradient, |values: &[bf16]| squares(values, |value| elements::widen(value).into()))?
        }
        (Device::Cpu, DType::F16) => {
            elements::read(gradient, |values: &[f16]| squares(values, |value| value.to_f32().into()))?
        }
        _ => gradient.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar()?,
    };
    Ok(squares)
}

/// Several running sums: the compiler may not reorder one sum of floating-point numbers, but it can keep these in vector registers.
fn squares<T: Copy>(values: &[T], widen: impl Fn(T) -> f64) -> f64 {
    const LANES: usize = 16;
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0f64; LANES];
    for block in blocks {
        for (sum, &value) in sums.iter_mut().zip(block) {
            let value = widen(value);
            *sum += value * value;
        }
    }
    let rest: f64 = rest.iter().map(|&value| widen(value).powi(2)).sum();
    sums.iter().sum::<f64>() + rest
}
