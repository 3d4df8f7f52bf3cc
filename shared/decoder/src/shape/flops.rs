//! Floating-point operations of a forward pass, a decode step and a training step.
//!
//! Counted are matrix products, a multiply-add as two: projections, queries · keys, weights · values, router, head.
//! Element-wise work (norms, rotary embedding, softmax, activations, biases, residual sums, the embedding's look-up) is
//! not: it is a fraction of a percent of the FLOPs of a published model, and bound by bytes.

use super::count::{Count, count, positive};
use super::model::{Attention, Layers, ModelShape};
use super::projection::Projection;
use super::training::Recompute;
use crate::error::Result;
use std::iter::Sum;
use std::ops::{Add, Mul};

/// Which pairs of query and key are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Those that a causal mask (and a window) lets through: query i of n sees i keys, n·(n + 1)/2 in all. What a kernel
    /// that skips masked pairs computes.
    Causal,
    /// All n², half of them masked away afterwards. What plain matrix products compute, and the convention of
    /// Megatron-LM's formulas (Narayanan et al., 2021; Korthikanti et al., 2022) and of PaLM's utilisation.
    Square,
}

/// For which positions logits are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// All: training, scoring.
    All,
    /// The last of each sequence: generation.
    Last,
}

/// FLOPs by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flops {
    /// Projections of attention: linear in the tokens.
    pub projections: u128,
    /// Queries · keys and weights · values: the part that grows with the context.
    pub attention: u128,
    /// Feed-forward networks or experts.
    pub feed_forward: u128,
    /// Routers and shared-expert gates.
    pub router: u128,
    /// The head.
    pub head: u128,
    total: u128,
}

impl Flops {
    /// All of them.
    pub fn total(&self) -> u128 {
        self.total
    }
}

/// FLOPs of training by the rule of thumb 6·N·D (Kaplan et al., 2020): 2 forward, 4 backward, per parameter and token. It leaves
/// out attention's growth with the context; [`ModelShape::training_step_flops`] does not.
///
/// # Errors
/// More than fit in 128 bits, or no parameters or tokens.
pub fn six_n_flops(parameters: u64, tokens: u64) -> Result<u128> {
    (6 * positive("parameters", parameters)? * positive("tokens", tokens)?).u128("flops")
}

impl ModelShape {
    /// FLOPs of reading `batch` prompts of `tokens` tokens each: per layer
    /// 2·tokens·(weights of the projections that a token passes through) + pairs·(2·heads·(d_qk + d_v)), and
    /// 2·vocab·hidden per position with logits.
    ///
    /// # Errors
    /// `batch` or `tokens` is 0, or the result does not fit in 128 bits.
    pub fn prefill_flops(&self, batch: u64, tokens: u64, pairs: Pairs, logits: Logits) -> Result<Flops> {
        self.forward(batch, tokens, pairs, logits)?.flops()
    }

    /// FLOPs of one decode step with a KV cache: `batch` sequences get one token each, which sees `context` tokens, itself
    /// included: 2·(weights) + context·(2·heads·(d_qk + d_v)) per layer. Linear in `context`.
    ///
    /// With latent attention the query is moved into the latent's space instead of expanding all cached latents
    /// (DeepSeek-V2, section 2.1.2): d_qk = kv_lora_rank + rope, d_v = kv_lora_rank. Moving there and back multiplies
    /// by each entry of `kv_b_proj` once, so it counts as that projection.
    ///
    /// # Errors
    /// `batch` or `context` is 0, or the result does not fit in 128 bits.
    pub fn decode_step_flops(&self, batch: u64, context: u64) -> Result<Flops> {
        let (batch, context) = (positive("batch", batch)?, positive("context", context)?);
        let seen = |run: &Layers| run.window.map_or(context, |window| context.min(count(window)));
        self.pass(batch, batch, |run| batch * seen(run) * self.attention.flops_per_pair(Cached::Yes)).flops()
    }

    /// FLOPs of one decode step without a cache: the whole sequence of `context` tokens is computed again, logits for the last.
    /// Quadratic in `context`.
    ///
    /// # Errors
    /// As [`ModelShape::prefill_flops`].
    pub fn decode_step_without_cache_flops(&self, batch: u64, context: u64) -> Result<Flops> {
        self.prefill_flops(batch, context, Pairs::Causal, Logits::Last)
    }

    /// FLOPs of forward and backward over `batch` sequences of `tokens` tokens: 3 × forward (each matrix product has two
    /// in its backward), plus what is computed a second time. With [`Recompute::Layer`] and [`Pairs::Square`] this is
    /// equation (3) of Narayanan et al., 2021, for the shapes it is made for.
    ///
    /// # Errors
    /// As [`ModelShape::prefill_flops`].
    pub fn training_step_flops(&self, batch: u64, tokens: u64, pairs: Pairs, recompute: Recompute) -> Result<Flops> {
        let forward = self.forward(batch, tokens, pairs, Logits::All)?;
        let (layer, attention) = match recompute {
            Recompute::Nothing => (3, 3),
            Recompute::Attention => (3, 4),
            Recompute::Layer => (4, 4),
        };
        let step = Parts {
            projections: layer * forward.projections,
            attention: attention * forward.attention,
            feed_forward: layer * forward.feed_forward,
            router: layer * forward.router,
            head: 3 * forward.head,
        };
        step.flops()
    }

    fn forward(&self, batch: u64, tokens: u64, pairs: Pairs, logits: Logits) -> Result<Parts> {
        let (batch, tokens) = (positive("batch", batch)?, positive("tokens", tokens)?);
        let rows = batch * tokens;
        let head_rows = match logits {
            Logits::All => rows,
            Logits::Last => batch,
        };
        let per_pair = self.attention.flops_per_pair(Cached::No);
        Ok(self.pass(rows, head_rows, |run| {
            batch * visible_pairs(count(0), tokens, run.window.map(count), pairs) * per_pair
        }))
    }

    /// One pass of `rows` tokens through all layers, of `head_rows` through the head.
    fn pass(&self, rows: Count, head_rows: Count, attention: impl Fn(&Layers) -> Count) -> Parts {
        let products = |list: Vec<Projection>| -> Count { list.iter().map(|p| 2 * rows * p.used * p.entries()).sum() };
        let layers = self.layers.iter().map(|run| {
            let layer = Parts {
                projections: products(self.attention.projections(self.hidden)),
                attention: attention(run),
                feed_forward: products(run.feed_forward.projections(self.hidden)),
                router: products(run.feed_forward.routing(self.hidden)),
                head: Count::ZERO,
            };
            layer * count(run.count)
        });
        Parts { head: 2 * head_rows * self.head().entries(), ..layers.sum() }
    }
}

/// Whether keys and values of past tokens are read from a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// All tokens are new.
    No,
    /// Only the last one is.
    Yes,
}

impl Attention {
    /// FLOPs of one pair of query and key: 2·heads·(d_qk + d_v).
    pub(super) fn flops_per_pair(&self, cached: Cached) -> Count {
        match *self {
            Self::Grouped { heads, head_dim, .. } => 4 * count(heads) * head_dim,
            Self::Latent { heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim, .. } => {
                let widths = match cached {
                    Cached::No => count(qk_nope_head_dim) + qk_rope_head_dim + v_head_dim,
                    Cached::Yes => count(kv_lora_rank) + qk_rope_head_dim + kv_lora_rank,
                };
                2 * count(heads) * widths
            }
        }
    }
}

/// Pairs of query and key when `new` tokens follow `past` ones and a query sees at most `window` keys, itself included.
///
/// Causal: Σ over the new tokens i = 1…new of min(past + i, window).
pub(super) fn visible_pairs(past: Count, new: Count, window: Option<Count>, pairs: Pairs) -> Count {
    match (pairs, window) {
        (Pairs::Square, _) => new * (past + new),
        (Pairs::Causal, None) => new * past + new.triangle(),
        (Pairs::Causal, Some(window)) => {
            let growing = new.min(window.saturating_sub(past));
            growing * past + growing.triangle() + new.saturating_sub(growing) * window
        }
    }
}

/// [`Flops`] while they are being added up.
#[derive(Clone, Copy)]
struct Parts {
    projections: Count,
    attention: Count,
    feed_forward: Count,
    router: Count,
    head: Count,
}

impl Parts {
    fn flops(self) -> Result<Flops> {
        let total = self.projections + self.attention + self.feed_forward + self.router + self.head;
        Ok(Flops {
            projections: self.projections.u128("flops")?,
            attention: self.attention.u128("flops")?,
            feed_forward: self.feed_forward.u128("flops")?,
            router: self.router.u128("flops")?,
            head: self.head.u128("flops")?,
            total: total.u128("flops")?,
        })
    }
}

impl Add for Parts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            projections: self.projections + other.projections,
            attention: self.attention + other.attention,
            feed_forward: self.feed_forward + other.feed_forward,
            router: self.router + other.router,
            head: self.head + other.head,
        }
    }
}

impl Mul<Count> for Parts {
    type Output = Self;

    fn mul(self, times: Count) -> Self {
        Self {
            projections: self.projections * times,
            attention: self.attention * times,
            feed_forward: self.feed_forward * times,
            router: self.router * times,
            head: self.head * times,
        }
    }
}

impl Sum for Parts {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        let none = Count::ZERO;
        let zero = Self { projections: none, attention: none, feed_forward: none, router: none, head: none };
        parts.fold(zero, |sum, next| sum + next)
    }
}
