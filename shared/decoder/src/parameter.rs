//! A named weight, or the part of it that is held here.

use candle_core::Tensor;
use std::sync::Arc;

/// A weight under its checkpoint name.
///
/// It is no candle variable: gradients leave through the [`GradientSink`](crate::ops::GradientSink) by this name, and an
/// optimiser updates the tensor's memory in place, which every clone sees.
#[derive(Clone, Debug)]
pub struct Parameter {
    name: Arc<str>,
    value: Tensor,
}

impl Parameter {
    /// `value` under the name `name`.
    pub fn new(name: impl Into<Arc<str>>, value: Tensor) -> Self {
        Self { name: name.into(), value }
    }

    /// Name in the checkpoint.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The elements.
    pub fn value(&self) -> &Tensor {
        &self.value
    }
}
