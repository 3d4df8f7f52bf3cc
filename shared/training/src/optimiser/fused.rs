//! The update rules on CPU tensors, one pass over memory each.
//!
//! An optimiser step is bound by memory traffic: AdamW reads four numbers per parameter and writes three. Composed of tensor operations it
//! would move several times as much; here every number moves once. The loops are plain, so that the compiler vectorises
//! them; `a * b + c` stays two operations, because a fused multiply-add without hardware support is a library call.

use super::{AdamWStep, SgdStep};
use crate::elements::{self, Element};
use candle_core::{DType, Result, Tensor, WithDType, bail};
use half::{bf16, f16};
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Sub, SubAssign};

/// The type that an update is computed in: f32 or f64.
trait Real:
    Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    fn root(self) -> Self;
}

impl Real for f32 {
    fn root(self) -> Self {
        self.sqrt()
    }
}

impl Real for f64 {
    fn root(self) -> Self {
        self.sqrt()
    }
}

/// One step of AdamW on `parameter`, `first` and `second`, all of one type.
pub(super) fn adamw(
    parameter: &Tensor,
    first: &Tensor,
    second: &Tensor,
    gradient: &Tensor,
    step: &AdamWStep,
) -> Result<()> {
    match (parameter.dtype(), gradient.dtype()) {
        (DType::F32, DType::F32) => adamw_on(parameter, first, second, gradient, step, |g: f32| g),
        (DType::F32, DType::BF16) => adamw_on(parameter, first, second, gradient, step, elements::widen),
        (DType::F32, DType::F16) => adamw_on(parameter, first, second, gradient, step, f16::to_f32),
        (DType::F64, DType::F64) => adamw_on(parameter, first, second, gradient, step, |g: f64| g),
        (parameter, gradient) => bail!("AdamW: a {gradient:?} gradient of a {parameter:?} parameter"),
    }
}

/// One step of SGD on `parameter`.
pub(super) fn sgd(parameter: &Tensor, gradient: &Tensor, step: &SgdStep) -> Result<()> {
    match (parameter.dtype(), gradient.dtype()) {
        (DType::F32, DType::F32) => sgd_on(parameter, gradient, step, |g: f32| g),
        (DType::F32, DType::BF16) => sgd_on(parameter, gradient, step, elements::widen),
        (DType::F32, DType::F16) => sgd_on(parameter, gradient, step, f16::to_f32),
        (DType::F64, DType::F64) => sgd_on(parameter, gradient, step, |g: f64| g),
        (parameter, gradient) => bail!("SGD: a {gradient:?} gradient of a {parameter:?} parameter"),
    }
}

/// Writes the f32 `master` weight, rounded, into the low-precision `parameter`.
pub(super) fn round(parameter: &Tensor, master: &Tensor) -> Result<()> {
    match parameter.dtype() {
        DType::BF16 => round_on(parameter, master, bf16::from_f32),
        DType::F16 => round_on(parameter, master, f16::from_f32),
        other => bail!("{other:?} parameters have no master weights"),
    }
}

fn adamw_on<T: Real, G: WithDType>(
    parameter: &Tensor,
    first: &Tensor,
    second: &Tensor,
    gradient: &Tensor,
    step: &AdamWStep,
    widen: impl Fn(G) -> T,
) -> Result<()> {
    elements::update(first, |m: &mut [T]| {
        elements::update(second, |v: &mut [T]| {
            elements::update_from(parameter, gradient, |p: &mut [T], g: &[G]| {
                adamw_loop(p, m, v, g, step, widen);
                Ok(())
            })
        })
    })
}

/// The order of operations is that of [`composed::adamw`](super::composed::adamw): the results are the same to the last bit.
fn adamw_loop<T: Real, G: Copy>(
    p: &mut [T],
    m: &mut [T],
    v: &mut [T],
    g: &[G],
    step: &AdamWStep,
    widen: impl Fn(G) -> T,
) {
    let scale = T::from_f64(step.scale);
    let keep = T::from_f64(step.keep);
    let first_weight = T::from_f64(step.first_weight);
    let beta2 = T::from_f64(step.beta2);
    let second_weight = T::from_f64(step.second_weight);
    let root_correction = T::from_f64(step.root_correction);
    let epsilon = T::from_f64(step.epsilon);
    let size = T::from_f64(step.size);
    for (((p, m), v), &g) in p.iter_mut().zip(m).zip(v).zip(g) {
        let g = widen(g) * scale;
        *m += (g - *m) * first_weight;
        *v = *v * beta2 + g * g * second_weight;
        *p = *p * keep - *m * size / (v.root() * root_correction + epsilon);
    }
}

fn sgd_on<T: Real, G: WithDType>(
    parameter: &Tensor,
    gradient: &Tensor,
    step: &SgdStep,
    widen: impl Fn(G) -> T,
) -> Result<()> {
    let scale = T::from_f64(step.scale);
    let learning_rate = T::from_f64(step.learning_rate);
    elements::update_from(parameter, gradient, |p: &mut [T], g: &[G]| {
        for (p, &g) in p.iter_mut().zip(g) {
            *p -= widen(g) * scale * learning_rate;
        }
        Ok(())
    })
}

fn round_on<T: Element>(parameter: &Tensor, master: &Tensor, narrow: impl Fn(f32) -> T) -> Result<()> {
    elements::update_from(parameter, master, |p: &mut [T], master: &[f32]| {
        for (p, &master) in p.iter_mut().zip(master) {
            *p = narrow(master);
        }
        Ok(())
    })
}
