//! What training holds beside the weights: gradients, optimiser state, activations.

use super::count::{Count, count, positive};
use super::memory::element_bytes;
use super::model::{Attention, FeedForward, Layers, Matrices, Mlp, ModelShape};
use crate::error::Result;
use candle_core::DType;

/// Bytes per parameter while training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBytes {
    /// The weights that forward and backward compute with.
    pub weights: u64,
    /// Gradients.
    pub gradients: u64,
    /// State of the optimiser: moments, and master copies in a wider type.
    pub optimiser: u64,
}

impl StateBytes {
    /// AdamW in f32: weight 4, gradient 4, two moments 8. 16 in all.
    pub const ADAMW_F32: Self = Self { weights: 4, gradients: 4, optimiser: 8 };
    /// AdamW in f64: 32 in all.
    pub const ADAMW_F64: Self = Self { weights: 8, gradients: 8, optimiser: 16 };
    /// AdamW with 16-bit weights and gradients; master weight 4 and two moments 8 in f32 (Rajbhandari et al., ZeRO, section
    /// 3.1: K = 12). 16 in all.
    pub const ADAMW_MIXED: Self = Self { weights: 2, gradients: 2, optimiser: 12 };
    /// As [`StateBytes::ADAMW_MIXED`], with gradients added up in f32 (Megatron-LM, bf16). 18 in all.
    pub const ADAMW_MIXED_F32_GRADIENTS: Self = Self { weights: 2, gradients: 4, optimiser: 12 };
    /// As [`StateBytes::ADAMW_MIXED`], with an f32 copy of the gradients beside the 16-bit ones (Megatron-LM, fp16). 20 in all.
    pub const ADAMW_MIXED_COPIED_GRADIENTS: Self = Self { weights: 2, gradients: 2, optimiser: 16 };
    /// Plain gradient descent in f32: 8 in all.
    pub const SGD_F32: Self = Self { weights: 4, gradients: 4, optimiser: 0 };

    /// All of it, per parameter.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.gradients).saturating_add(self.optimiser)
    }
}

/// What the backward computes again instead of keeping it (Korthikanti et al., 2022, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing: the n² attention weights are kept too.
    Nothing,
    /// Queries · keys and what follows up to the values ("selective"); also what a fused attention does.
    Attention,
    /// Whole layers, of which only the input is kept ("full").
    Layer,
}

/// How activations are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activations {
    /// Type of the elements.
    pub dtype: DType,
    /// Whether attention and feed-forward network end in dropout, whose masks (one byte per element) are kept.
    pub dropout: bool,
    /// What is computed again.
    pub recompute: Recompute,
}

impl ModelShape {
    /// Bytes that a layer of layer `index`'s kind keeps for its backward, for `batch` sequences of `tokens` tokens: the inputs of its
    /// operations, each once. Per token, in elements:
    ///
    /// - inputs of the two norms and their results: 4·hidden;
    /// - q, k, v and the result of attention: 2·(heads + kv_heads)·head_dim (latent attention: the latents too);
    /// - inside the feed-forward network 3·width if gated, 2·width if plain; for experts that times
    ///   experts per token, with each expert's input and result, and the router's probabilities;
    /// - unless recomputed, the attention weights: heads·tokens;
    /// - with dropout 2·hidden bytes of masks, and for the attention weights a mask and a second copy.
    ///
    /// For GPT's shape in 16 bits with dropout this is Korthikanti et al.'s tokens·batch·hidden·(34 + 5·heads·tokens/hidden);
    /// without the attention weights 34, with [`Recompute::Layer`] 2. Left out, as there: the norms' and the
    /// softmax's statistics.
    ///
    /// # Errors
    /// No such layer, `batch` or `tokens` is 0, `dtype` has no whole bytes, or the result does not fit in 64 bits.
    pub fn layer_activation_bytes(&self, index: u64, batch: u64, tokens: u64, kept: Activations) -> Result<u64> {
        self.run_activations(self.layer(index)?, batch, tokens, kept)?.u64("activation bytes")
    }

    /// Bytes kept outside the layers: input and result of the final norm, and the logits in f32.
    ///
    /// # Errors
    /// `batch` or `tokens` is 0, `dtype` has no whole bytes, or the result does not fit in 64 bits.
    pub fn head_activation_bytes(&self, batch: u64, tokens: u64, dtype: DType) -> Result<u64> {
        let rows = positive("batch", batch)? * positive("tokens", tokens)?;
        (rows * (2 * count(self.hidden) * element_bytes(dtype)? + 4 * count(self.vocab))).u64("activation bytes")
    }

    /// Bytes kept at the end of a forward pass, layers and head. With [`Recompute::Layer`] the one layer that is being
    /// computed again is in it, whole, the largest.
    ///
    /// # Errors
    /// As [`ModelShape::layer_activation_bytes`].
    pub fn activation_bytes(&self, batch: u64, tokens: u64, kept: Activations) -> Result<u64> {
        let mut sum = count(self.head_activation_bytes(batch, tokens, kept.dtype)?);
        let mut recomputed = 0;
        for run in &self.layers {
            sum = sum + count(run.count) * self.run_activations(run, batch, tokens, kept)?;
            let whole = Activations { recompute: Recompute::Attention, ..kept };
            recomputed = recomputed.max(self.run_activations(run, batch, tokens, whole)?.u64("activation bytes")?);
        }
        let recomputed = if kept.recompute == Recompute::Layer { recomputed } else { 0 };
        (sum + recomputed).u64("activation bytes")
    }

    fn run_activations(&self, run: &Layers, batch: u64, tokens: u64, kept: Activations) -> Result<Count> {
        let (batch, tokens) = (positive("batch", batch)?, positive("tokens", tokens)?);
        let size = element_bytes(kept.dtype)?;
        let hidden = count(self.hidden);
        if kept.recompute == Recompute::Layer {
            return Ok(batch * tokens * hidden * size);
        }
        let elements = 4 * hidden + self.attention.kept_elements() + run.feed_forward.kept_elements(hidden);
        let masks = if kept.dropout { 2 * hidden } else { Count::ZERO };
        let weights = match kept.recompute {
            Recompute::Nothing if kept.dropout => self.attention.heads() * tokens * (2 * size + 1),
            Recompute::Nothing => self.attention.heads() * tokens * size,
            Recompute::Attention | Recompute::Layer => Count::ZERO,
        };
        Ok(batch * tokens * (elements * size + masks + weights))
    }
}

impl Attention {
    fn heads(&self) -> Count {
        match *self {
            Self::Grouped { heads, .. } | Self::Latent { heads, .. } => count(heads),
        }
    }

    /// Elements per token that attention keeps, its input apart.
    fn kept_elements(&self) -> Count {
        match *self {
            Self::Grouped { heads, kv_heads, head_dim, .. } => 2 * (count(heads) + kv_heads) * head_dim,
            Self::Latent { heads, q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim } => {
                let latents = 2 * q_lora_rank.map_or(Count::ZERO, count) + 2 * count(kv_lora_rank) + qk_rope_head_dim;
                let key = count(qk_nope_head_dim) + qk_rope_head_dim;
                latents + count(heads) * (2 * key + 2 * count(v_head_dim))
            }
        }
    }
}

impl FeedForward {
    /// Elements per token that the feed-forward network keeps, its input apart.
    fn kept_elements(&self, hidden: Count) -> Count {
        match self {
            Self::Dense(mlp) => mlp.kept_elements(),
            Self::Experts { experts, experts_per_token, expert, shared, .. } => {
                let routed = count(*experts_per_token) * (2 * hidden + expert.kept_elements());
                let shared = shared.map_or(Count::ZERO, |shared| count(shared.experts) * shared.expert.kept_elements());
                routed + shared + *experts
            }
        }
    }
}

impl Mlp {
    fn kept_elements(&self) -> Count {
        match self.matrices {
            Matrices::Gated => 3 * count(self.width),
            Matrices::Plain => 2 * count(self.width),
        }
    }
}
