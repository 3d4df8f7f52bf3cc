//! The residual connection.

use super::graph::with_backward;
use super::real::{Elements, Real, by_type, bytes, is_native, vectorised};
use super::rows::by_rows;
use crate::context::Context;
use crate::error::Result;
use candle_core::{Device, Result as CandleResult, Tensor};
use ledger::Phase;

/// `x + y`, both `[batch, seq, hidden]`.
///
/// # Errors
/// Shapes that differ, or an observer that objects.
pub fn add(ctx: &Context, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let sum = forward(&x.detach(), &y.detach())?;
    let moved = 3 * bytes(&sum);
    ctx.observe("add", ctx.unnamed(), Phase::Forward, sum.dims(), sum.elem_count() as u64, moved)?;
    if ctx.sink.is_none() {
        return Ok(sum);
    }
    Ok(with_backward("add", [x, y], sum, |_, _, dy| Ok([Some(dy.clone()), Some(dy.clone())]))?)
}

/// With several threads candle adds in a pool of its own, whose threads spin while ours compute.
fn forward(x: &Tensor, y: &Tensor) -> CandleResult<Tensor> {
    if is_native(x) && x.shape() == y.shape() && x.dtype() == y.dtype() {
        let (x, y) = (x.contiguous()?, y.contiguous()?);
        by_type!(x, add_loop(&x, &y))
    } else {
        x + y
    }
}

fn add_loop<T: Real>(x: &Tensor, y: &Tensor) -> CandleResult<Tensor> {
    let (a, b) = (Elements::<T>::of(x)?, Elements::<T>::of(y)?);
    let (a, b): (&[T], &[T]) = (&a, &b);
    let mut out = vec![T::ZERO; a.len()];
    by_rows(&mut out, 1, |range, out| {
        let (a, b) = (&a[range.clone()], &b[range]);
        vectorised(
            #[inline(always)]
            || {
                for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *out = a + b;
                }
            },
        );
    });
    Tensor::from_vec(out, x.shape(), &Device::Cpu)
}
