//! Where weights come from: a folder, a GGUF file, or a seed; always read by part.
//!
//! A rank asks for *its part* of a named weight ([`Weights::read`]) and never holds more than that part and a small buffer.
//!
//! - [`folder`]: safetensors in Hugging Face layout; [`gguf`]: a GGUF file; [`random`]: from a seed; [`memory`]: from tensors;
//! - [`save`]: the way back into a folder;
//! - inside, `cut` turns a part into runs of elements, `positioned` reads the bytes that hold them, `element` converts them and
//!   allocates the tensor.

mod content;
mod cut;
mod element;
pub mod folder;
pub mod gguf;
pub mod memory;
mod mismatch;
mod positioned;
pub mod random;
pub mod save;

use crate::error::Result;
use candle_core::{DType, Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// What a weight is for: enough to decide how it may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Token embedding `[vocab, hidden]`.
    Embedding,
    /// RMS norm before attention `[hidden]`.
    AttentionNorm,
    /// Query projection `[heads · head_dim, hidden]`.
    Query,
    /// Key projection `[kv_heads · head_dim, hidden]`.
    Key,
    /// Value projection `[kv_heads · head_dim, hidden]`.
    Value,
    /// Bias of the query projection.
    QueryBias,
    /// Bias of the key projection.
    KeyBias,
    /// Bias of the value projection.
    ValueBias,
    /// Norm on queries.
    QueryNorm,
    /// Norm on keys.
    KeyNorm,
    /// Output projection of attention `[hidden, heads · head_dim]`.
    Output,
    /// Bias of the output projection `[hidden]`.
    OutputBias,
    /// RMS norm before the feed-forward network `[hidden]`.
    FeedForwardNorm,
    /// Gate projection `[ffn, hidden]`.
    Gate,
    /// Up projection `[ffn, hidden]`.
    Up,
    /// Down projection `[hidden, ffn]`.
    Down,
    /// Bias of the gate projection `[ffn]`.
    GateBias,
    /// Bias of the up projection `[ffn]`.
    UpBias,
    /// Bias of the down projection `[hidden]`.
    DownBias,
    /// RMS norm before the head `[hidden]`.
    FinalNorm,
    /// The head `[vocab, hidden]`; absent when tied.
    Head,
}

/// One named weight of a model, as the config asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightSpec {
    /// Name in the checkpoint.
    pub name: Arc<str>,
    /// Full shape.
    pub shape: Vec<usize>,
    /// What it is for.
    pub role: Role,
    /// Layer it belongs to, counted over the whole model; `None` outside the layers.
    pub layer: Option<usize>,
}

impl WeightSpec {
    /// Elements of the whole weight.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&size| size as u64).product()
    }
}

/// Which part of a weight is held here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// All of it.
    Whole,
    /// Some ranges along one dimension, concatenated in the order given.
    Ranges {
        /// The dimension.
        dim: usize,
        /// Indices along it.
        ranges: Vec<Range<usize>>,
    },
}

impl Part {
    /// Shape of this part of a weight of shape `whole`.
    pub fn shape(&self, whole: &[usize]) -> Vec<usize> {
        let mut shape = whole.to_vec();
        if let Self::Ranges { dim, ranges } = self
            && let Some(size) = shape.get_mut(*dim)
        {
            *size = ranges.iter().map(ExactSizeIterator::len).sum();
        }
        shape
    }
}

/// A source of weights.
pub trait Weights: Send + Sync {
    /// Where they come from, for messages.
    fn origin(&self) -> String;

    /// Whether there is a weight of this name.
    fn contains(&self, name: &str) -> bool;

    /// Checks names, shapes and types of all `specs` without reading or allocating a weight.
    ///
    /// # Errors
    /// The first weight that is missing, or has another shape or an unusable type.
    fn check(&self, specs: &[WeightSpec]) -> Result<()>;

    /// Reads `part` of `spec`, as `dtype`, on `device`.
    ///
    /// # Errors
    /// The weight is missing, has another shape, or cannot be read.
    fn read(&self, spec: &WeightSpec, part: &Part, dtype: DType, device: &Device) -> Result<Tensor>;
}

impl<W: Weights + ?Sized> Weights for Arc<W> {
    fn origin(&self) -> String {
        (**self).origin()
    }

    fn contains(&self, name: &str) -> bool {
        (**self).contains(name)
    }

    fn check(&self, specs: &[WeightSpec]) -> Result<()> {
        (**self).check(specs)
    }

    fn read(&self, spec: &WeightSpec, part: &Part, dtype: DType, device: &Device) -> Result<Tensor> {
        (**self).read(spec, part, dtype, device)
    }
}
