//! The gated feed-forward network: `down(activation(gate(x)) ∘ up(x))`.

use super::Loader;
use super::attention::Projection;
use crate::config::Activation;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::parameter::Parameter;
use crate::split::Block;
use crate::weights::Role;
use candle_core::Tensor;

/// Weights of one layer's feed-forward network, or this rank's part of its width.
#[derive(Clone, Debug)]
pub struct FeedForward {
    gate: Projection,
    up: Projection,
    down: Projection,
    activation: Activation,
}

impl FeedForward {
    pub(super) fn load(loader: &Loader<'_>, layer: usize) -> Result<Self> {
        Ok(Self {
            gate: Projection::load(loader, layer, Role::Gate, Role::GateBias)?,
            up: Projection::load(loader, layer, Role::Up, Role::UpBias)?,
            down: Projection::load(loader, layer, Role::Down, Role::DownBias)?,
            activation: loader.config.activation,
        })
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        [&self.gate, &self.up, &self.down].into_iter().flat_map(Projection::parameters)
    }

    /// Normed hidden states `[batch, seq, hidden]` → what the network adds to the residual stream.
    pub(super) fn forward(&self, ctx: &Context, x: Tensor) -> Result<Tensor> {
        let x = ctx.split.boundary.enter(ctx, Block::FeedForward, x)?;
        let (gate, up) = (self.gate.forward(ctx, &x)?, self.up.forward(ctx, &x)?);
        let partial = self.down.partial(ctx, &ops::gated(ctx, self.activation, &gate, &up)?)?;
        let sum = ctx.split.boundary.leave(ctx, Block::FeedForward, partial)?;
        self.down.add_bias(ctx, sum)
    }
}
