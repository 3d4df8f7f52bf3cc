//! Bytes of weights and of the KV cache, and the bytes that a decode step has to read.

use super::count::{Count, count, positive};
use super::model::{Attention, ModelShape};
use crate::error::{Error, Result};
use candle_core::DType;

/// Bytes of one element.
///
/// # Errors
/// Elements of `dtype` are not a whole number of bytes.
pub(super) fn element_bytes(dtype: DType) -> Result<Count> {
    match dtype.size_in_bytes() {
        0 => Err(Error::Setting {
            name: "dtype",
            found: dtype.as_str().into(),
            expected: "a type of whole bytes: f64, f32, bf16, f16, f8e4m3, u8".into(),
        }),
        bytes => Ok(count(bytes as u64)),
    }
}

impl ModelShape {
    /// Bytes of all weights: parameters · bytes per element.
    ///
    /// # Errors
    /// `dtype` has no whole bytes, or the result does not fit in 64 bits.
    pub fn weight_bytes(&self, dtype: DType) -> Result<u64> {
        (count(self.parameters()?.total()) * element_bytes(dtype)?).u64("weight bytes")
    }

    /// Bytes of the KV cache per token of one sequence: layers · 2·kv_heads·head_dim · bytes per element; with latent
    /// attention layers · (kv_lora_rank + rope) · bytes per element (one latent for keys and values of all heads).
    /// Windows are not counted: a token inside them takes this much.
    ///
    /// # Errors
    /// `dtype` has no whole bytes, or the result does not fit in 64 bits.
    pub fn kv_bytes_per_token(&self, dtype: DType) -> Result<u64> {
        let layers = count(self.layer_count()?);
        (layers * self.attention.cached_elements() * element_bytes(dtype)?).u64("kv bytes")
    }

    /// Bytes of the KV cache of `batch` sequences of `context` tokens: as [`ModelShape::kv_bytes_per_token`], times tokens. A
    /// layer with a sliding window keeps at most the window's tokens.
    ///
    /// # Errors
    /// `context` or `batch` is 0, `dtype` has no whole bytes, or the result does not fit in 64 bits.
    pub fn kv_bytes(&self, context: u64, batch: u64, dtype: DType) -> Result<u64> {
        let (context, batch) = (positive("context", context)?, positive("batch", batch)?);
        let tokens: Count = self
            .layers
            .iter()
            .map(|run| count(run.count) * run.window.map_or(context, |window| context.min(count(window))))
            .sum();
        (batch * tokens * self.attention.cached_elements() * element_bytes(dtype)?).u64("kv bytes")
    }

    /// Bytes of the weights that a decode step of one sequence reads: all active ones, of the embeddings only the token's
    /// row each; a tied embedding is read whole, as the head.
    ///
    /// # Errors
    /// `dtype` has no whole bytes, or the result does not fit in 64 bits.
    pub fn decode_weight_bytes(&self, dtype: DType) -> Result<u64> {
        let active = self.active_parameters()?;
        let rows = if self.positions.is_some() { 2 } else { 1 };
        let elements = count(active.non_embedding()) + self.head().entries() + rows * count(self.hidden);
        (elements * element_bytes(dtype)?).u64("weight bytes")
    }
}

impl Attention {
    /// Elements that one layer caches per token.
    fn cached_elements(&self) -> Count {
        match *self {
            Self::Grouped { kv_heads, head_dim, .. } => 2 * count(kv_heads) * head_dim,
            Self::Latent { kv_lora_rank, qk_rope_head_dim, .. } => count(kv_lora_rank) + qk_rope_head_dim,
        }
    }
}
