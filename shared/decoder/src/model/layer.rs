//! One decoder layer.

use super::{Attention, FeedForward, Loader};
use crate::cache::LayerCache;
use crate::context::Context;
use crate::error::Result;
use crate::ops::{self, Rotation};
use crate::parameter::Parameter;
use crate::positions::Positions;
use crate::weights::Role;
use candle_core::Tensor;

/// `x ← x + attention(norm(x))`, then `x ← x + feed_forward(norm(x))`.
#[derive(Clone, Debug)]
pub struct Layer {
    attention_norm: Parameter,
    pub(super) attention: Attention,
    feed_forward_norm: Parameter,
    feed_forward: FeedForward,
    norm_eps: f64,
}

impl Layer {
    /// Reads layer `layer`, counted over the whole model.
    pub(super) fn load(loader: &Loader<'_>, layer: usize) -> Result<Self> {
        Ok(Self {
            attention_norm: loader.read(Role::AttentionNorm, layer)?,
            attention: Attention::load(loader, layer)?,
            feed_forward_norm: loader.read(Role::FeedForwardNorm, layer)?,
            feed_forward: FeedForward::load(loader, layer)?,
            norm_eps: loader.config.norm_eps,
        })
    }

    /// Every parameter of the layer.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        std::iter::once(&self.attention_norm)
            .chain(self.attention.parameters())
            .chain(std::iter::once(&self.feed_forward_norm))
            .chain(self.feed_forward.parameters())
    }

    pub(super) fn forward(
        &self,
        ctx: &Context,
        x: &Tensor,
        positions: &Positions,
        rotation: &Rotation,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor> {
        let normed = ops::rms_norm(ctx, x, &self.attention_norm, self.norm_eps)?;
        let x = ops::add(ctx, x, &self.attention.forward(ctx, normed, positions, rotation, cache)?)?;
        let normed = ops::rms_norm(ctx, &x, &self.feed_forward_norm, self.norm_eps)?;
        ops::add(ctx, &x, &self.feed_forward.forward(ctx, normed)?)
    }
}
