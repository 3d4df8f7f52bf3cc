//! What this decoder holds while it computes, from its config alone: the number beside the one that the ledger measures.
//!
//! The published formulas in [`shape`](crate::shape) count what any implementation must keep. This one counts what *ours*
//! keeps, tensor by tensor, in the order of [`Layer`](super::Layer), and so is exact up to the small descriptors of tensors.

use super::activation_dtype;
use crate::config::{Config, QkNorm};
use candle_core::{DType, Device};

/// Sizes of a forward on one device.
#[derive(Clone, Copy, Debug)]
pub struct Footprint<'a> {
    config: &'a Config,
    /// Tokens in the batch, padding included.
    tokens: u64,
    /// Bytes of an activation.
    element: u64,
    /// Bytes of a weight.
    weight: u64,
}

impl<'a> Footprint<'a> {
    /// For a batch of `rows · seq` tokens through a model whose weights are held as `dtype` on `device`.
    pub fn new(config: &'a Config, rows: usize, seq: usize, dtype: DType, device: &Device) -> Self {
        let element = activation_dtype(dtype, device).size_in_bytes() as u64;
        Self { config, tokens: rows as u64 * seq as u64, element, weight: dtype.size_in_bytes() as u64 }
    }

    /// Bytes of `elements` activations per token.
    fn per_token(&self, elements: usize) -> u64 {
        self.tokens * elements as u64 * self.element
    }

    /// Bytes of all weights.
    pub fn weights(&self) -> u64 {
        self.config.parameters() * self.weight
    }

    /// Bytes of a contiguous KV cache for `rows` sequences of up to `capacity` tokens.
    pub fn kv_cache(&self, rows: usize, capacity: usize) -> u64 {
        let per_token = 2 * self.config.layers * self.config.kv_width();
        rows as u64 * capacity as u64 * per_token as u64 * self.element
    }

    /// cos and sin of every token, for the whole forward.
    pub fn rotation(&self) -> u64 {
        self.per_token(self.config.head_dim)
    }

    /// Hidden states `[batch, seq, hidden]`.
    pub fn hidden(&self) -> u64 {
        self.per_token(self.config.hidden)
    }

    /// Logits of every token.
    pub fn logits(&self) -> u64 {
        self.per_token(self.config.vocab)
    }

    /// What a layer's graph keeps for its backward: the result of every operation once, and the copy of the input at which
    /// the graph is cut. Of attention no scores are kept.
    pub fn kept_by_layer(&self) -> u64 {
        let c = self.config;
        let (qkv, output, ffn) = (usize::from(c.qkv_bias), usize::from(c.output_bias), usize::from(c.ffn_bias));
        let norm = usize::from(c.qk_norm == QkNorm::PerHead);
        // Input, two norms, two projections back, two sums.
        let hidden = (7 + output + ffn) * c.hidden;
        // Projected, rotated, attended; keys and values: projected twice, rotated once.
        let queries = (3 + qkv + norm) * c.query_width();
        let keys = (3 + 2 * qkv + norm) * c.kv_width();
        // Gate, up, their product.
        let ffn = (3 + 2 * ffn) * c.ffn;
        self.per_token(hidden + queries + keys + ffn)
    }

    /// What a layer's weight gradients need, when they are put off: the inputs of its matrix products, each once, and the gradients of
    /// their outputs.
    pub fn kept_for_weights(&self) -> u64 {
        let c = self.config;
        let inputs = 2 * c.hidden + c.query_width() + c.ffn;
        let gradients = c.query_width() + 2 * c.kv_width() + 2 * c.hidden + 2 * c.ffn;
        self.per_token(inputs + gradients)
    }

    /// What the head's graph keeps: copy of the input, norm, and the logits that became their gradient.
    pub fn kept_by_head(&self) -> u64 {
        2 * self.hidden() + self.logits()
    }

    /// Most activations held at once by a forward that keeps nothing, with logits of `logits_of` tokens at its end.
    pub fn inference_activations(&self, logits_of: u64) -> u64 {
        let c = self.config;
        // The layer's input and first sum, the norm, gate, up, their product, and the projection back.
        let feed_forward = 4 * c.hidden + (3 + usize::from(c.ffn_bias)) * c.ffn;
        // Input and norm; queries and keys before and after rotation, values; what was attended to.
        let attention = 2 * c.hidden + 3 * c.query_width() + 3 * c.kv_width();
        let head = logits_of * (2 * c.hidden + c.vocab) as u64 * self.element + self.hidden();
        self.rotation() + self.per_token(feed_forward.max(attention)).max(head)
    }

    /// Most activations that the backward of a layer holds beside what all forwards kept: gradients on their way.
    ///
    /// The widest place is the gate's: the gradient of the product, those of gate and up, and one of them once more while
    /// candle adds it to zeros; beside two gradients of the residual stream.
    pub fn backward_of_layer(&self) -> u64 {
        let c = self.config;
        let gate = 5 * c.ffn + 2 * c.hidden;
        // Gradients of the attended values, of queries, keys and values, and one of these once more, twice.
        let attention = 4 * c.query_width() + 2 * c.kv_width() + 2 * c.hidden;
        self.per_token(gate.max(attention))
    }

    /// As [`Footprint::backward_of_layer`], while two matrices are multiplied: the gradients of gate and up, or of queries, keys and
    /// values, beside two of the residual stream.
    pub fn backward_of_layer_in_products(&self) -> u64 {
        let c = self.config;
        self.per_token((2 * c.ffn).max(c.query_width() + 2 * c.kv_width()) + 2 * c.hidden)
    }

    /// Most activations that the backward of the head holds beside what its forward kept: the input gradient before and after
    /// it is scaled, the scaled input of the weight gradient, and the gradient of the norm; or the first two beside the head's
    /// weights, if these are narrower than the activations and have to be widened.
    pub fn backward_of_head(&self) -> u64 {
        let weights = (self.config.vocab * self.config.hidden) as u64;
        let widened = if self.weight < self.element { weights * self.element } else { 0 };
        (4 * self.hidden()).max(2 * self.hidden() + widened)
    }
}
