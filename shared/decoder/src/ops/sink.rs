//! Where gradients of parameters go.

use super::real::wide;
use crate::error::Result;
use candle_core::Tensor;
use std::sync::Arc;

/// Receives the gradients of parameters while a backward runs.
///
/// The sink decides when a weight gradient is computed: at once, after the input gradients of the whole stage
/// (zero-bubble schedules), or with other contributions to the same name (tied weights, micro-batches).
pub trait GradientSink: Send + Sync {
    /// One more contribution to the gradient of parameter `name`.
    ///
    /// # Errors
    /// The sink does not know the name, or computing the gradient failed.
    fn contribute(&self, name: &Arc<str>, gradient: WeightGradient) -> Result<()>;
}

type Accumulate = dyn FnOnce(Option<Tensor>) -> Result<Tensor> + Send;

/// One contribution to a parameter's gradient, not yet computed.
///
/// It holds what the computation needs (for a linear layer its input and the gradient of its output), so keeping it
/// costs that memory.
#[must_use = "a contribution that is dropped is missing from the gradient"]
pub struct WeightGradient(Box<Accumulate>);

impl WeightGradient {
    /// A contribution that `accumulate` adds to the sum so far (`None`: it is the first), which it may change in place.
    pub fn later(accumulate: impl FnOnce(Option<Tensor>) -> Result<Tensor> + Send + 'static) -> Self {
        Self(Box::new(accumulate))
    }

    /// A contribution that is already there; sums are in f32 or wider.
    pub fn ready(gradient: Tensor) -> Self {
        Self::later(move |sum| match sum {
            None => Ok(gradient),
            Some(sum) => Ok((wide(&sum)? + wide(&gradient)?)?),
        })
    }

    /// Computes the contribution and adds it to `sum`.
    ///
    /// # Errors
    /// The computation failed.
    pub fn accumulate(self, sum: Option<Tensor>) -> Result<Tensor> {
        (self.0)(sum)
    }
}

impl std::fmt::Debug for WeightGradient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WeightGradient")
    }
}
