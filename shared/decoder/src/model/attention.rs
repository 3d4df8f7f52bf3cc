//! Self-attention: project, rotate, attend, project back.

use super::Loader;
use crate::cache::LayerCache;
use crate::context::Context;
use crate::error::Result;
use crate::ops::{self, Rotation};
use crate::parameter::Parameter;
use crate::positions::Positions;
use crate::split::{Block, Partial, Projected};
use crate::weights::Role;
use candle_core::Tensor;

/// Weights of one layer's self-attention, or this rank's heads of it.
#[derive(Clone, Debug)]
pub struct Attention {
    q: Projection,
    k: Projection,
    v: Projection,
    output: Projection,
    q_norm: Option<Parameter>,
    k_norm: Option<Parameter>,
    norm_eps: f64,
    head_dim: usize,
    window: Option<usize>,
}

/// A weight and, in some families, a bias.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    pub(super) weight: Parameter,
    pub(super) bias: Option<Parameter>,
}

impl Projection {
    pub(super) fn load(loader: &Loader<'_>, layer: usize, weight: Role, bias: Role) -> Result<Self> {
        Ok(Self { weight: loader.read(weight, layer)?, bias: loader.read_if_present(bias, layer)? })
    }

    /// `x · Wᵀ + b`: for a projection whose outputs are complete here.
    pub(super) fn forward(&self, ctx: &Context, x: &Tensor) -> Result<Tensor> {
        self.add_bias(ctx, ops::linear(ctx, x, &self.weight)?)
    }

    /// `x · Wᵀ`: for a projection whose inputs may be split; the bias comes after the reduction, once.
    pub(super) fn partial(&self, ctx: &Context, x: &Tensor) -> Result<Partial> {
        Ok(Partial::new(ops::linear(ctx, x, &self.weight)?))
    }

    pub(super) fn add_bias(&self, ctx: &Context, y: Tensor) -> Result<Tensor> {
        match &self.bias {
            Some(bias) => ops::add_bias(ctx, &y, bias),
            None => Ok(y),
        }
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        std::iter::once(&self.weight).chain(&self.bias)
    }
}

impl Attention {
    pub(super) fn load(loader: &Loader<'_>, layer: usize) -> Result<Self> {
        let config = loader.config;
        Ok(Self {
            q: Projection::load(loader, layer, Role::Query, Role::QueryBias)?,
            k: Projection::load(loader, layer, Role::Key, Role::KeyBias)?,
            v: Projection::load(loader, layer, Role::Value, Role::ValueBias)?,
            output: Projection::load(loader, layer, Role::Output, Role::OutputBias)?,
            q_norm: loader.read_if_present(Role::QueryNorm, layer)?,
            k_norm: loader.read_if_present(Role::KeyNorm, layer)?,
            norm_eps: config.norm_eps,
            head_dim: config.head_dim,
            window: config.windows.get(layer).copied().flatten(),
        })
    }

    /// Key heads held here.
    pub fn kv_heads(&self) -> usize {
        self.k.weight.value().dims().first().map_or(0, |rows| rows / self.head_dim)
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let projections = [&self.q, &self.k, &self.v, &self.output];
        projections.into_iter().flat_map(Projection::parameters).chain(&self.q_norm).chain(&self.k_norm)
    }

    /// Normed hidden states `[batch, seq, hidden]` → what attention adds to the residual stream.
    pub(super) fn forward(
        &self,
        ctx: &Context,
        x: Tensor,
        positions: &Positions,
        rotation: &Rotation,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor> {
        let x = ctx.split.boundary.enter(ctx, Block::Attention, x)?;
        let q = self.normed(ctx, self.heads(self.q.forward(ctx, &x)?)?, self.q_norm.as_ref())?;
        let k = self.normed(ctx, self.heads(self.k.forward(ctx, &x)?)?, self.k_norm.as_ref())?;
        let v = self.heads(self.v.forward(ctx, &x)?)?;
        let projected = Projected { q: ops::rotate(ctx, &q, rotation)?, k: ops::rotate(ctx, &k, rotation)?, v };
        let attended = ctx.split.attend.attend(ctx, projected, positions, self.window, cache)?;
        let partial = self.output.partial(ctx, &attended.flatten_from(2)?)?;
        let sum = ctx.split.boundary.leave(ctx, Block::Attention, partial)?;
        self.output.add_bias(ctx, sum)
    }

    /// `[batch, seq, heads · head_dim]` → `[batch, seq, heads, head_dim]`.
    fn heads(&self, x: Tensor) -> Result<Tensor> {
        let (batch, seq, width) = x.dims3()?;
        Ok(x.reshape((batch, seq, width / self.head_dim, self.head_dim))?)
    }

    fn normed(&self, ctx: &Context, x: Tensor, norm: Option<&Parameter>) -> Result<Tensor> {
        match norm {
            Some(weight) => ops::rms_norm(ctx, &x, weight, self.norm_eps),
            None => Ok(x),
        }
    }
}
