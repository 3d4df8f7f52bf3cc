//! Optimisers: SGD, and AdamW with decoupled weight decay (Loshchilov & Hutter, 2019).
//!
//! [`Optimiser::step`] changes parameters *in place*. The model holds handles of the same storage and sees the new values; nothing is
//! handed back. The state is per named tensor of any shape, so a rank that owns a slice of each parameter passes its slices
//! (of parameters and gradients), and the same code is a sharded optimiser.
//!
//! Reading order: [`Rule`] (which formula), [`Optimiser::step`], then `composed.rs` (the formulas) and `fused.rs` (the same in one pass).

mod composed;
mod fused;
mod state;
#[cfg(test)]
mod tests;

pub use state::OptimiserState;

use crate::schedule::check_learning_rate;
use crate::{Error, Named, Result};
use candle_core::{DType, Device, Tensor};
use serde::Serialize;
use state::ParameterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which formula turns a gradient into a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// p ← p − η·g. No state.
    Sgd,
    /// Adam with decoupled weight decay.
    AdamW(AdamW),
}

/// Settings of AdamW; the formula is PyTorch's:
///
/// ```text
/// p ← p·(1 − η·λ)                      (if the parameter decays)
/// m ← m + (1 − β₁)·(g − m)
/// v ← β₂·v + (1 − β₂)·g²
/// p ← p − η·m̂ / (√v̂ + ε)      with m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ), t = 1 in the first step
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdamW {
    /// β₁, decay of the first moment.
    pub beta1: f64,
    /// β₂, decay of the second moment.
    pub beta2: f64,
    /// ε.
    pub epsilon: f64,
    /// λ, weight decay.
    pub weight_decay: f64,
    /// Which parameters decay.
    pub decay: Decay,
}

impl Default for AdamW {
    /// β = (0.9, 0.95), ε = 10⁻⁸, λ = 0.1, as language models are usually trained (Brown et al., 2020); all parameters decay.
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, decay: Decay::All }
    }
}

/// Which parameters decay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Decay {
    /// All, as PyTorch does with one parameter group.
    All,
    /// Those with two or more dimensions: not norms and biases. Looks at the tensors it is given: a rank whose slices are flat
    /// names them with [`Decay::Only`].
    Matrices,
    /// Those of these names.
    Only(#[serde(serialize_with = "as_texts")] BTreeSet<Arc<str>>),
}

fn as_texts<S: serde::Serializer>(names: &BTreeSet<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(|name| &**name))
}

impl Decay {
    fn applies_to(&self, name: &str, parameter: &Tensor) -> bool {
        match self {
            Self::All => true,
            Self::Matrices => parameter.rank() >= 2,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// The numbers of one AdamW step on one parameter, computed in f64.
#[derive(Clone, Copy, Debug)]
struct AdamWStep {
    /// Multiplies the gradient.
    scale: f64,
    /// 1 − η·λ.
    keep: f64,
    /// 1 − β₁.
    first_weight: f64,
    /// β₂.
    beta2: f64,
    /// 1 − β₂.
    second_weight: f64,
    /// 1 / √(1 − β₂ᵗ).
    root_correction: f64,
    /// ε.
    epsilon: f64,
    /// η / (1 − β₁ᵗ).
    size: f64,
}

/// The numbers of one SGD step.
#[derive(Clone, Copy, Debug)]
struct SgdStep {
    /// Multiplies the gradient.
    scale: f64,
    /// η.
    learning_rate: f64,
}

/// An optimiser and its state.
#[derive(Debug)]
pub struct Optimiser {
    rule: Rule,
    /// Steps taken.
    steps: u64,
    /// What is remembered of each parameter; allocated in its first step.
    states: BTreeMap<Arc<str>, ParameterState>,
}

impl Optimiser {
    /// A fresh optimiser.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(rule: Rule) -> Result<Self> {
        if let Rule::AdamW(AdamW { beta1, beta2, epsilon, weight_decay, .. }) = &rule {
            for (name, beta) in [("beta1", *beta1), ("beta2", *beta2)] {
                if !(0.0..1.0).contains(&beta) {
                    return Err(Error::setting(name, beta, "at least 0 and less than 1"));
                }
            }
            if !(*epsilon > 0.0 && epsilon.is_finite()) {
                return Err(Error::setting("epsilon", epsilon, "a positive finite number, such as 1e-8"));
            }
            if !(*weight_decay >= 0.0 && weight_decay.is_finite()) {
                return Err(Error::setting("weight decay", weight_decay, "a finite number, 0 or more"));
            }
        }
        Ok(Self { rule, steps: 0, states: BTreeMap::new() })
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// One step: changes every parameter in place, by its gradient times `scale`.
    ///
    /// `scale` is where clipping ([`clip::coefficient`](crate::clip::coefficient)) and the division of a summed gradient by its
    /// count of tokens go: gradients are read once and not rewritten. Weights in bf16 or f16 are rounded from f32 master
    /// weights that the optimiser keeps; their gradients may be of the weights' type or f32.
    ///
    /// # Errors
    /// The learning rate is not positive, a parameter has no gradient or a gradient no parameter, or shapes, types or devices do not
    /// fit: nothing has changed then. An error of the device in the midst of it leaves some parameters changed.
    pub fn step(&mut self, parameters: &Named, gradients: &Named, learning_rate: f64, scale: f64) -> Result<()> {
        check_learning_rate(learning_rate)?;
        if !(scale >= 0.0 && scale.is_finite()) {
            return Err(Error::setting("scale of the gradient", scale, "a finite number, 0 or more"));
        }
        self.check(parameters, gradients)?;
        for (name, parameter) in parameters {
            if !self.states.contains_key(name) {
                self.states.insert(name.clone(), ParameterState::new(&self.rule, parameter)?);
            }
        }
        let time = self.steps + 1;
        for ((name, parameter), gradient) in parameters.iter().zip(gradients.values()) {
            let Some(state) = self.states.get(name) else { continue };
            self.step_one(name, parameter, gradient, state, Time { time, learning_rate, scale })?;
        }
        self.steps = time;
        Ok(())
    }

    fn step_one(
        &self,
        name: &str,
        parameter: &Tensor,
        gradient: &Tensor,
        state: &ParameterState,
        at: Time,
    ) -> Result<()> {
        let fused = matches!(parameter.device(), Device::Cpu);
        let weight = state.master.as_ref().unwrap_or(parameter);
        match (&self.rule, &state.moments) {
            (Rule::AdamW(settings), Some([first, second])) => {
                let step = settings.step(at, settings.decay.applies_to(name, parameter));
                let adamw = if fused { fused::adamw } else { composed::adamw };
                adamw(weight, first, second, gradient, &step)?;
            }
            _ => {
                let sgd = if fused { fused::sgd } else { composed::sgd };
                sgd(weight, gradient, &SgdStep { scale: at.scale, learning_rate: at.learning_rate })?;
            }
        }
        if let Some(master) = &state.master {
            let round = if fused { fused::round } else { composed::round };
            round(parameter, master)?;
        }
        Ok(())
    }

    /// Everything that can be wrong is found before anything changes.
    fn check(&self, parameters: &Named, gradients: &Named) -> Result<()> {
        if let Some(name) = parameters.keys().find(|name| !gradients.contains_key(*name)) {
            let expected = "a gradient of every parameter (zeros for one that was not used)";
            return Err(mismatch("gradient of", name, "none", expected));
        }
        if let Some(name) = gradients.keys().find(|name| !parameters.contains_key(*name)) {
            return Err(mismatch("gradient of", name, "a gradient", "none: there is no such parameter"));
        }
        for ((name, parameter), gradient) in parameters.iter().zip(gradients.values()) {
            let legal = match parameter.dtype() {
                DType::F32 | DType::F64 => gradient.dtype() == parameter.dtype(),
                DType::BF16 | DType::F16 => [parameter.dtype(), DType::F32].contains(&gradient.dtype()),
                other => return Err(mismatch("parameter", name, describe_dtype(other), "f64, f32, bf16 or f16")),
            };
            if !legal || gradient.shape() != parameter.shape() || !gradient.device().same_device(parameter.device()) {
                return Err(mismatch("gradient of", name, describe(gradient), describe(parameter)));
            }
            if !parameter.is_contiguous() {
                return Err(mismatch("parameter", name, "a view with strides", "a contiguous tensor"));
            }
            if let Some(state) = self.states.get(name) {
                state.check(name, &self.rule, parameter)?;
            }
        }
        Ok(())
    }
}

/// What one step is taken with.
#[derive(Clone, Copy)]
struct Time {
    /// Number of the step, from 1.
    time: u64,
    learning_rate: f64,
    scale: f64,
}

impl AdamW {
    fn step(&self, Time { time, learning_rate, scale }: Time, decays: bool) -> AdamWStep {
        let decay = if decays { self.weight_decay } else { 0.0 };
        AdamWStep {
            scale,
            keep: 1.0 - learning_rate * decay,
            first_weight: 1.0 - self.beta1,
            beta2: self.beta2,
            second_weight: 1.0 - self.beta2,
            root_correction: 1.0 / (1.0 - self.beta2.powf(time as f64)).sqrt(),
            epsilon: self.epsilon,
            size: learning_rate / (1.0 - self.beta1.powf(time as f64)),
        }
    }
}

fn mismatch(what: &'static str, name: &str, found: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::Mismatch { what, name: name.into(), found: found.into(), expected: expected.into() }
}

fn describe_dtype(dtype: DType) -> String {
    dtype.as_str().to_owned()
}

/// `f32 [8, 16] on Cpu`.
fn describe(tensor: &Tensor) -> String {
    format!("{} {:?} on {:?}", tensor.dtype().as_str(), tensor.dims(), tensor.device().location())
}
