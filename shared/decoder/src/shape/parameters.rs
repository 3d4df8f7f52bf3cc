//! How many parameters a model has, and how many of them one token passes through.

use super::count::{Count, count, positive};
use super::model::{FeedForward, Layers, ModelShape};
use super::projection::Projection;
use crate::error::Result;

/// Parameters by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// Token embedding: vocab · hidden.
    pub embedding: u64,
    /// Learned position embedding: positions · hidden; 0 for rotary positions.
    pub positions: u64,
    /// Attention of all layers: projections, biases, norms on q and k or on the latents.
    pub attention: u64,
    /// Feed-forward networks or experts of all layers, with biases.
    pub feed_forward: u64,
    /// Routers, their correction biases and shared-expert gates.
    pub router: u64,
    /// The two norms of each layer and the final one.
    pub norms: u64,
    /// The head: vocab · hidden; 0 if tied to the embedding.
    pub head: u64,
    total: u64,
}

impl Parameters {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Without token embedding, position embedding and head.
    pub fn non_embedding(&self) -> u64 {
        self.attention + self.feed_forward + self.router + self.norms
    }
}

impl ModelShape {
    /// Parameters that the model has; equal to the elements of its checkpoint.
    ///
    /// vocab·hidden + positions·hidden + Σ layers (attention + feed-forward + router + 2 norms) + norm + head, where a
    /// projection has inputs·outputs (+ outputs if biased), an RMS norm hidden, a layer norm 2·hidden weights.
    ///
    /// # Errors
    /// More than fit in 64 bits.
    pub fn parameters(&self) -> Result<Parameters> {
        self.sum_parameters(|projection| projection.held)
    }

    /// Parameters that one token passes through: of the routed experts only `experts_per_token`; the embedding and
    /// the head count whole. Publications differ in what they leave out: subtract [`Parameters::embedding`] for "without the
    /// input embedding".
    ///
    /// # Errors
    /// More than fit in 64 bits.
    pub fn active_parameters(&self) -> Result<Parameters> {
        self.sum_parameters(|projection| projection.used)
    }

    /// Parameters of layer `index` (from 0), its two norms included.
    ///
    /// # Errors
    /// There is no such layer, or more parameters than fit in 64 bits.
    pub fn layer_parameters(&self, index: u64) -> Result<u64> {
        let held = |projection: &Projection| projection.held;
        let run = self.layer(index)?;
        let layer =
            self.attention_parameters() + feed_forward_parameters(self, run, held) + router_parameters(self, run);
        (layer + 2 * self.norm.parameters(self.hidden)).u64("parameters")
    }

    fn attention_parameters(&self) -> Count {
        let projections = self.attention.projections(self.hidden);
        projections.iter().map(Projection::parameters).sum::<Count>() + self.attention.inner_norms()
    }

    fn sum_parameters(&self, copies: impl Fn(&Projection) -> Count + Copy) -> Result<Parameters> {
        let layers = || self.layers.iter().map(|run| count(run.count));
        let embedding = count(self.vocab) * self.hidden;
        let positions = self.positions.map_or(Count::ZERO, count) * self.hidden;
        let attention = layers().sum::<Count>() * self.attention_parameters();
        let feed_forward =
            self.layers.iter().map(|run| count(run.count) * feed_forward_parameters(self, run, copies)).sum::<Count>();
        let router = self.layers.iter().map(|run| count(run.count) * router_parameters(self, run)).sum::<Count>();
        let norms = (2 * layers().sum::<Count>() + 1) * self.norm.parameters(self.hidden);
        let head = if self.tied { Count::ZERO } else { embedding };
        let total = embedding + positions + attention + feed_forward + router + norms + head;
        let name = "parameters";
        Ok(Parameters {
            embedding: embedding.u64(name)?,
            positions: positions.u64(name)?,
            attention: attention.u64(name)?,
            feed_forward: feed_forward.u64(name)?,
            router: router.u64(name)?,
            norms: norms.u64(name)?,
            head: head.u64(name)?,
            total: total.u64(name)?,
        })
    }
}

fn feed_forward_parameters(shape: &ModelShape, run: &Layers, copies: impl Fn(&Projection) -> Count) -> Count {
    let projections = run.feed_forward.projections(shape.hidden);
    projections.iter().map(|projection| copies(projection) * projection.parameters()).sum()
}

fn router_parameters(shape: &ModelShape, run: &Layers) -> Count {
    let matrices = run.feed_forward.routing(shape.hidden).iter().map(Projection::parameters).sum::<Count>();
    match run.feed_forward {
        FeedForward::Experts { experts, correction_bias: true, .. } => matrices + experts,
        _ => matrices,
    }
}

/// Rows of an embedding for `vocab` tokens, padded to the next multiple of `multiple`:
/// ⌈vocab / multiple⌉ · multiple. Megatron-LM pads to multiples of 128 · tensor-parallel size.
///
/// # Errors
/// One of them is 0, or the result does not fit in 64 bits.
pub fn padded_vocab(vocab: u64, multiple: u64) -> Result<u64> {
    positive("vocab", vocab)?;
    positive("multiple", multiple)?;
    (count(vocab.div_ceil(multiple)) * multiple).u64("vocab")
}
