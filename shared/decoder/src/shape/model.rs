//! What a shape is: the sizes of a decoder-only model, and the few choices that change how many weights it has.

use super::count::{Count, count};
use crate::error::{Error, Result};
use serde::Deserialize;
use std::num::NonZeroU64;

/// A size: at least 1. Sizes of 0 cannot be written down, in Rust or in TOML.
pub type Size = NonZeroU64;

/// The sizes of a decoder-only model.
///
/// Made by [`ModelShape::from_config`], [`published`](super::published()) or [`ModelShape::from_toml`]; the fields may
/// then be changed to ask "what if" (`shape.tied = true`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelShape {
    /// Rows of the embedding, padding included.
    pub vocab: Size,
    /// Width of the residual stream.
    pub hidden: Size,
    /// Longest sequence, in tokens.
    pub context: Size,
    /// Rows of a learned position embedding `[positions, hidden]`; `None` for rotary positions, which have no weights.
    #[serde(default)]
    pub positions: Option<Size>,
    /// The two norms of each layer, and the final one.
    pub norm: Norm,
    /// Whether the head's weight is the embedding's.
    pub tied: bool,
    /// Attention, the same in every layer.
    pub attention: Attention,
    /// The layers in order, in runs of equal ones.
    pub layers: Vec<Layers>,
}

/// A run of equal layers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    /// How many.
    pub count: Size,
    /// How many of the last tokens a query sees, itself included; `None` for all.
    #[serde(default)]
    pub window: Option<Size>,
    /// Their feed-forward network.
    pub feed_forward: FeedForward,
}

/// Kind of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// RMS norm: a weight.
    Rms,
    /// Layer norm: a weight and a bias.
    Layer,
}

/// Kind of attention.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Attention {
    /// Multi-head (`kv_heads = heads`), multi-query (`kv_heads = 1`) and grouped-query attention (Ainslie et al., 2023).
    Grouped {
        /// Query heads.
        heads: Size,
        /// Key and value heads; divides `heads`.
        kv_heads: Size,
        /// Width of one head; not always `hidden / heads`.
        head_dim: Size,
        /// Biases on q, k and v.
        #[serde(default)]
        qkv_bias: bool,
        /// Bias on the output projection.
        #[serde(default)]
        output_bias: bool,
        /// Norm on q and k.
        #[serde(default)]
        qk_norm: QkNorm,
    },
    /// Multi-head latent attention (DeepSeek-V2, 2024, section 2.1): keys and values of all heads are projected up from
    /// one latent vector per token, and only that is cached, beside one rotary key that all heads share.
    Latent {
        /// Heads.
        heads: Size,
        /// Width of the queries' latent; `None` if queries are projected directly.
        #[serde(default)]
        q_lora_rank: Option<Size>,
        /// Width of the latent of keys and values.
        kv_lora_rank: Size,
        /// Width of the part of a query and key head that carries no position.
        qk_nope_head_dim: Size,
        /// Width of the rotary part.
        qk_rope_head_dim: Size,
        /// Width of a value head.
        v_head_dim: Size,
    },
}

/// Which norm q and k go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QkNorm {
    /// None.
    #[default]
    None,
    /// RMS norm over each head; weights `[head_dim]` (Qwen3).
    PerHead,
    /// RMS norm over the whole projection; weights `[heads · head_dim]` and `[kv_heads · head_dim]` (OLMoE).
    WholeProjection,
}

/// Kind of feed-forward network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FeedForward {
    /// One network for every token.
    Dense(Mlp),
    /// A router sends each token to some of many networks (Shazeer et al., 2017).
    Experts {
        /// Routed experts.
        experts: Size,
        /// How many of them a token passes through; at most `experts`.
        experts_per_token: Size,
        /// One expert.
        expert: Mlp,
        /// Experts that every token passes through.
        #[serde(default)]
        shared: Option<SharedExperts>,
        /// A bias per expert that only the selection sees (DeepSeek-V3, section 2.1.2).
        #[serde(default)]
        correction_bias: bool,
    },
}

/// A feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mlp {
    /// Inner width.
    pub width: Size,
    /// Which matrices.
    #[serde(default)]
    pub matrices: Matrices,
    /// A bias on each of them.
    #[serde(default)]
    pub bias: bool,
}

/// Matrices of a feed-forward network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matrices {
    /// Three: down(activation(gate(x)) · up(x)) (Shazeer, GLU Variants, 2020).
    #[default]
    Gated,
    /// Two: down(activation(up(x))).
    Plain,
}

/// Experts that every token passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedExperts {
    /// How many.
    pub experts: Size,
    /// One of them.
    pub expert: Mlp,
    /// A gate `[1, hidden]` on their output (Qwen2-MoE).
    #[serde(default)]
    pub gate: bool,
}

impl ModelShape {
    /// Reads a shape from TOML, the `[model.shape]` of an entry of `assets/models.toml`.
    ///
    /// # Errors
    /// The text is not such a table, a size is 0 or negative, or sizes contradict each other.
    pub fn from_toml(text: &str) -> Result<Self> {
        let shape: Self = toml::from_str(text)
            .map_err(|error| Error::Model { origin: "model shape".into(), problem: error.to_string() })?;
        shape.check()?;
        Ok(shape)
    }

    /// Layers of the whole model.
    ///
    /// # Errors
    /// More than fit in 64 bits.
    pub fn layer_count(&self) -> Result<u64> {
        self.layers.iter().map(|run| count(run.count)).sum::<Count>().u64("layers")
    }

    /// The run that layer `index` (from 0) belongs to.
    ///
    /// # Errors
    /// There is no such layer.
    pub fn layer(&self, index: u64) -> Result<&Layers> {
        let mut before = 0u64;
        for run in &self.layers {
            before = before.saturating_add(run.count.get());
            if index < before {
                return Ok(run);
            }
        }
        Err(Error::Setting { name: "layer", found: index.to_string(), expected: format!("less than {before}") })
    }

    /// Refuses sizes that contradict each other.
    pub(super) fn check(&self) -> Result<()> {
        if self.layers.is_empty() {
            return Err(Error::Setting { name: "layers", found: "none".into(), expected: "at least 1".into() });
        }
        if let Attention::Grouped { heads, kv_heads, .. } = self.attention
            && heads.get() % kv_heads != 0
        {
            let expected = format!("a divisor of heads = {heads}");
            return Err(Error::Setting { name: "kv_heads", found: kv_heads.to_string(), expected });
        }
        for run in &self.layers {
            if let FeedForward::Experts { experts, experts_per_token, .. } = run.feed_forward
                && experts_per_token > experts
            {
                let expected = format!("at most experts = {experts}");
                return Err(Error::Setting {
                    name: "experts_per_token",
                    found: experts_per_token.to_string(),
                    expected,
                });
            }
        }
        self.parameters().map(drop)
    }
}
