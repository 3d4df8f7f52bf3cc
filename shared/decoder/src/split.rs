//! The places where the decoder may be cut, and the trait object at each of them.
//!
//! A [`Split`] says how a rank's part of the model works: which part of each weight is [placed](Placement) here, what
//! happens at the [boundary](Boundary) of each block, who [attends](Attend) to which keys, and how the
//! [vocabulary](Vocabulary) is dealt with. On one device all of them are [`Whole`], which does nothing. A chapter is a small
//! implementation of a few of them; splits compose by choosing fields.
//!
//! ```text
//!             Vocabulary::embed                                    Vocabulary::logits / loss
//!                    │                                                        ▲
//!   x ──┬─ norm ─ enter ─ q k v ─ rotate ─ attend ─ o ─ leave ─(+)─┬─ norm ─ enter ─ gate up ─ down ─ leave ─(+)─▶
//!       └──────────────────────────────────────────────────────────┘ └───────────────────────────────────────────┘
//!                   Boundary                       Partial         Boundary                        Partial
//! ```

use crate::cache::LayerCache;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ops::{self, LossSum};
use crate::parameter::Parameter;
use crate::positions::Positions;
use crate::weights::{Part, WeightSpec};
use candle_core::{DType, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// How the model is cut, by split point.
#[derive(Clone)]
pub struct Split {
    /// Which weights and layers are here.
    pub placement: Arc<dyn Placement>,
    /// What happens before and after attention and the feed-forward network.
    pub boundary: Arc<dyn Boundary>,
    /// How queries meet keys and values.
    pub attend: Arc<dyn Attend>,
    /// How ids become hidden states, and hidden states logits or a loss.
    pub vocabulary: Arc<dyn Vocabulary>,
}

impl Split {
    /// No cut: one device does everything.
    pub fn whole() -> Self {
        let whole = Arc::new(Whole);
        Self { placement: whole.clone(), boundary: whole.clone(), attend: whole.clone(), vocabulary: whole }
    }
}

impl std::fmt::Debug for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Split")
    }
}

/// Which weights and layers are held here.
pub trait Placement: Send + Sync {
    /// The part of a weight that is held here.
    fn part(&self, weight: &WeightSpec) -> Part;

    /// The layers that are held here, chunk by chunk, out of `layers`.
    fn layers(&self, layers: usize) -> Vec<Range<usize>>;

    /// Whether token ids enter here.
    fn embedding(&self) -> bool;

    /// Whether the final norm and the head are here.
    fn head(&self) -> bool;
}

/// The two blocks of a decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Block {
    /// Self-attention.
    Attention,
    /// The feed-forward network.
    FeedForward,
}

/// What happens where hidden states enter and leave a block.
///
/// With tensor parallelism these are Megatron's conjugate pair f (identity forward, all-reduce backward) and g (the
/// reverse); with sequence parallelism all-gather and reduce-scatter.
pub trait Boundary: Send + Sync {
    /// Normed hidden states, before the first projections of `block`.
    ///
    /// # Errors
    /// Communication failed.
    fn enter(&self, ctx: &Context, block: Block, x: Tensor) -> Result<Tensor>;

    /// What the last projection of `block` computed here, to be reduced to hidden states.
    ///
    /// # Errors
    /// Communication failed.
    fn leave(&self, ctx: &Context, block: Block, partial: Partial) -> Result<Tensor>;
}

/// A summand that still has to be reduced over the ranks that share a layer.
///
/// It has no arithmetic: adding a bias to it, or to the residual stream, would count that once per rank.
///
/// ```compile_fail
/// # use decoder::split::Partial; use candle_core::Tensor;
/// fn bias_too_early(partial: Partial, bias: &Tensor) -> candle_core::Result<Tensor> {
///     partial.broadcast_add(bias)
/// }
/// ```
///
/// ```compile_fail
/// # use decoder::split::Partial; use candle_core::Tensor;
/// fn used_as_if_whole(residual: &Tensor, partial: &Partial) -> candle_core::Result<Tensor> {
///     residual + partial
/// }
/// ```
#[derive(Debug)]
#[must_use = "a partial sum must be reduced"]
pub struct Partial(Tensor);

impl Partial {
    /// Marks `summand` as one rank's part of a sum.
    pub fn new(summand: Tensor) -> Self {
        Self(summand)
    }

    /// The sum, by `reduce`: over one rank the summand itself, over several an all-reduce or reduce-scatter.
    ///
    /// # Errors
    /// Those of `reduce`.
    pub fn reduce(self, reduce: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<Tensor> {
        reduce(self.0)
    }
}

/// Queries, keys and values of some tokens, rotated: `[batch, seq, heads, head_dim]`, the latter two with kv_heads.
#[derive(Debug)]
pub struct Projected {
    /// Queries.
    pub q: Tensor,
    /// Keys.
    pub k: Tensor,
    /// Values.
    pub v: Tensor,
}

/// How queries meet the keys and values of all tokens before them.
pub trait Attend: Send + Sync {
    /// `projected` at `positions` against all keys up to each position (at most `window` of them), those in `cache`
    /// included; returns `[batch, seq, heads, head_dim]`.
    ///
    /// # Errors
    /// The cache is full, or communication failed.
    fn attend(
        &self,
        ctx: &Context,
        projected: Projected,
        positions: &Positions,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor>;

    /// How many of the first `tokens` tokens of a sequence have their keys and values in the cache here.
    fn kept(&self, tokens: usize) -> usize {
        tokens
    }
}

/// How the vocabulary's two weights are used.
pub trait Vocabulary: Send + Sync {
    /// Token ids `[batch, seq]` (u32) to hidden states `[batch, seq, hidden]` of type `dtype`.
    ///
    /// # Errors
    /// An id outside of the vocabulary.
    fn embed(&self, ctx: &Context, ids: &Tensor, weight: &Parameter, dtype: DType) -> Result<Tensor>;

    /// Normed hidden states `[.., hidden]` to logits `[.., vocab]`.
    ///
    /// # Errors
    /// Communication failed.
    fn logits(&self, ctx: &Context, x: &Tensor, weight: &Parameter) -> Result<Tensor>;

    /// Normed hidden states and one target per token to the sum of losses.
    ///
    /// # Errors
    /// A target outside of the vocabulary.
    fn loss(&self, ctx: &Context, x: &Tensor, weight: &Parameter, targets: &[u32]) -> Result<LossSum>;
}

/// No cut at this point: the reading of the decoder on a single device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whole;

impl Placement for Whole {
    fn part(&self, _: &WeightSpec) -> Part {
        Part::Whole
    }

    fn layers(&self, layers: usize) -> Vec<Range<usize>> {
        std::iter::once(0..layers).collect()
    }

    fn embedding(&self) -> bool {
        true
    }

    fn head(&self) -> bool {
        true
    }
}

impl Boundary for Whole {
    fn enter(&self, _: &Context, _: Block, x: Tensor) -> Result<Tensor> {
        Ok(x)
    }

    fn leave(&self, _: &Context, _: Block, partial: Partial) -> Result<Tensor> {
        partial.reduce(Ok)
    }
}

impl Attend for Whole {
    fn attend(
        &self,
        ctx: &Context,
        Projected { q, k, v }: Projected,
        positions: &Positions,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor> {
        let (k, v) = match cache {
            Some(cache) => cache.store(&k, &v, positions)?,
            None if positions.begin_at_zero() => (k.transpose(1, 2)?, v.transpose(1, 2)?),
            None => {
                return Err(Error::Setting {
                    name: "positions",
                    found: "a sequence that does not begin at 0, without a KV cache".into(),
                    expected: "the keys of earlier tokens must be in a cache".into(),
                });
            }
        };
        let scale = 1. / (q.dim(3)? as f64).sqrt();
        ops::attention(ctx, &q, &k, &v, &positions.visible(window), scale)
    }
}

impl Vocabulary for Whole {
    fn embed(&self, ctx: &Context, ids: &Tensor, weight: &Parameter, dtype: DType) -> Result<Tensor> {
        ops::embedding(ctx, ids, weight, dtype)
    }

    fn logits(&self, ctx: &Context, x: &Tensor, weight: &Parameter) -> Result<Tensor> {
        ops::linear(ctx, x, weight)
    }

    fn loss(&self, ctx: &Context, x: &Tensor, weight: &Parameter, targets: &[u32]) -> Result<LossSum> {
        ops::head_cross_entropy(ctx, x, weight, targets)
    }
}
