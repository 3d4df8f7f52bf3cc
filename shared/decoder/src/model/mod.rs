//! The decoder: embedding, layers, final norm and head, written once for every family and every split.
//!
//! Read [`Layer`] first: it is one decoder layer as in the papers. [`Decoder`] strings layers together and is what
//! chapters drive, as a whole ([`Decoder::logits`]) or piece by piece ([`Decoder::embed`], [`Decoder::layer`],
//! [`Decoder::head_loss`]).

mod attention;
mod feed_forward;
mod footprint;
mod layer;
mod loader;

pub use attention::Attention;
pub use feed_forward::FeedForward;
pub use footprint::Footprint;
pub use layer::Layer;
pub use loader::Loader;

use crate::cache::{CacheShape, Contiguous, KvCache, LayerCache};
use crate::config::Config;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ops::{self, LossSum, Rotation};
use crate::parameter::Parameter;
use crate::positions::{Positions, Tokens};
use crate::split::Split;
use crate::weights::{Role, Weights};
use candle_core::{DType, Device, Tensor};

/// The part of a model that is held here: all of it on one device.
#[derive(Clone, Debug)]
pub struct Decoder {
    config: Config,
    embedding: Option<Parameter>,
    layers: Vec<Layer>,
    head: Option<Head>,
    activations: DType,
    device: Device,
}

/// Final norm and head.
#[derive(Clone, Debug)]
struct Head {
    norm: Parameter,
    weight: Parameter,
}

/// Where the tokens of a forward stand: positions, and the rotation that follows from them.
#[derive(Clone, Debug)]
pub struct Place {
    positions: Positions,
    rotation: Rotation,
}

impl Place {
    /// The positions.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }
}

/// The type that activations have for weights of type `dtype`: on CPU f32 (f64 for an f64 model), whatever the weights
/// are stored in; on a GPU that of the weights. Norms, softmax, rotation angles and sums are f32 or wider everywhere.
pub fn activation_dtype(dtype: DType, device: &Device) -> DType {
    match dtype {
        DType::BF16 | DType::F16 if device.is_cpu() => DType::F32,
        other => other,
    }
}

impl Decoder {
    /// Reads the part of the model that `split` places here, as `dtype`, onto `device`.
    ///
    /// Every name and shape is checked against the config before anything is allocated.
    ///
    /// # Errors
    /// A weight that is missing or has another shape, or a device without room.
    pub fn load(config: &Config, weights: &dyn Weights, dtype: DType, device: &Device, split: &Split) -> Result<Self> {
        if !matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
            return Err(Error::Setting {
                name: "dtype",
                found: format!("{dtype:?}"),
                expected: "f64, f32, f16 or bf16".into(),
            });
        }
        weights.check(&config.weights())?;
        let loader = Loader { config, weights, placement: &*split.placement, dtype, device };
        let placement = &split.placement;
        let holds_embedding = placement.embedding() || (placement.head() && config.tied);
        let embedding = holds_embedding.then(|| loader.read(Role::Embedding, 0)).transpose()?;
        let layers = placement.layers(config.layers).into_iter().flatten();
        let layers = layers.map(|layer| Layer::load(&loader, layer)).collect::<Result<_>>()?;
        let head = if placement.head() {
            let weight = match &embedding {
                Some(embedding) if config.tied => embedding.clone(),
                _ => loader.read(Role::Head, 0)?,
            };
            Some(Head { norm: loader.read(Role::FinalNorm, 0)?, weight })
        } else {
            None
        };
        let embedding = embedding.filter(|_| placement.embedding());
        let activations = activation_dtype(dtype, device);
        Ok(Self { config: config.clone(), embedding, layers, head, activations, device: device.clone() })
    }

    /// The whole model's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Type of hidden states, keys and values.
    pub fn activations(&self) -> DType {
        self.activations
    }

    /// The layers held here.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Every parameter held here with the number of places that use it (2 for a tied embedding), each name once.
    pub fn parameters(&self) -> Vec<(Parameter, usize)> {
        let mut parameters: Vec<(Parameter, usize)> = Vec::new();
        let head = self.head.iter().flat_map(|head| [&head.norm, &head.weight]);
        let all = self.embedding.iter().chain(self.layers.iter().flat_map(Layer::parameters)).chain(head);
        for parameter in all {
            match parameters.iter_mut().find(|(known, _)| known.name() == parameter.name()) {
                Some((_, uses)) => *uses += 1,
                None => parameters.push((parameter.clone(), 1)),
            }
        }
        parameters
    }

    /// An empty cache for `batch` sequences of up to `capacity` tokens through the layers held here.
    ///
    /// # Errors
    /// The capacity exceeds the model's context, or the device has no room.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<Contiguous> {
        if capacity > self.config.context {
            return Err(Error::ContextLength { needed: capacity, available: self.config.context });
        }
        let kv_heads = self.layers.first().map_or(self.config.kv_heads, |layer| layer.attention.kv_heads());
        let shape = CacheShape { layers: self.layers.len(), batch, kv_heads, capacity, head_dim: self.config.head_dim };
        Contiguous::new(shape, self.activations, &self.device)
    }

    /// Looks `positions` up in the rotary embedding, once per forward.
    ///
    /// # Errors
    /// [`Error::ContextLength`] past the model's context.
    pub fn place(&self, positions: &Positions) -> Result<Place> {
        if positions.longest() > self.config.context {
            return Err(Error::ContextLength { needed: positions.longest(), available: self.config.context });
        }
        let frequencies = self.config.rope.frequencies(self.config.head_dim);
        let all = positions.all();
        let rotation = Rotation::new(&all, &frequencies.inverse, frequencies.factor, self.activations, &self.device)?;
        Ok(Place { positions: positions.clone(), rotation })
    }

    /// Ids `[batch, seq]` → hidden states `[batch, seq, hidden]`.
    ///
    /// # Errors
    /// The embedding is not held here, or an id is outside of the vocabulary.
    pub fn embed(&self, ctx: &Context, ids: &Tensor) -> Result<Tensor> {
        let embedding = self.embedding.as_ref().ok_or_else(|| elsewhere("the embedding"))?;
        ctx.split.vocabulary.embed(ctx, ids, embedding, self.activations)
    }

    /// Hidden states `[batch, seq, hidden]` through the layer with local number `index`.
    ///
    /// # Errors
    /// The layer is not held here, the cache is full, or communication failed.
    pub fn layer(
        &self,
        ctx: &Context,
        index: usize,
        x: &Tensor,
        place: &Place,
        cache: Option<&mut dyn KvCache>,
    ) -> Result<Tensor> {
        let layer = self.layers.get(index).ok_or_else(|| elsewhere("the layer"))?;
        let cache = cache.map(|cache| LayerCache::new(cache, index));
        layer.forward(ctx, x, &place.positions, &place.rotation, cache)
    }

    /// Hidden states `[.., hidden]` → logits `[.., vocab]`.
    ///
    /// # Errors
    /// The head is not held here.
    pub fn head_logits(&self, ctx: &Context, x: &Tensor) -> Result<Tensor> {
        let head = self.head.as_ref().ok_or_else(|| elsewhere("the head"))?;
        let x = ops::rms_norm(ctx, x, &head.norm, self.config.norm_eps)?;
        ctx.split.vocabulary.logits(ctx, &x, &head.weight)
    }

    /// Hidden states `[batch, seq, hidden]` and one target per token → sum of losses.
    ///
    /// # Errors
    /// The head is not held here, or a target is outside of the vocabulary.
    pub fn head_loss(&self, ctx: &Context, x: &Tensor, targets: &[u32]) -> Result<LossSum> {
        let head = self.head.as_ref().ok_or_else(|| elsewhere("the head"))?;
        let x = ops::rms_norm(ctx, x, &head.norm, self.config.norm_eps)?;
        ctx.split.vocabulary.loss(ctx, &x, &head.weight, targets)
    }

    /// Tokens through embedding and all layers: hidden states `[batch, seq, hidden]`.
    ///
    /// # Errors
    /// See the pieces.
    pub fn hidden(&self, ctx: &Context, tokens: &Tokens, mut cache: Option<&mut dyn KvCache>) -> Result<Tensor> {
        let _kind = ledger::scope(ledger::Kind::Activations);
        let place = self.place(tokens.positions())?;
        let mut x = self.embed(ctx, tokens.ids())?;
        for index in 0..self.layers.len() {
            // The borrow of the cache must not outlive the layer's.
            let cache = cache.as_mut().map(|cache| &mut **cache as &mut dyn KvCache);
            x = self.layer(ctx, index, &x, &place, cache)?;
        }
        Ok(x)
    }

    /// Logits of every token, `[batch, seq, vocab]`.
    ///
    /// # Errors
    /// See the pieces.
    pub fn logits(&self, ctx: &Context, tokens: &Tokens, cache: Option<&mut dyn KvCache>) -> Result<Tensor> {
        let _kind = ledger::scope(ledger::Kind::Activations);
        let x = self.hidden(ctx, tokens, cache)?;
        self.head_logits(ctx, &x)
    }

    /// Logits of every row's last token, `[batch, vocab]`: all that generation needs.
    ///
    /// # Errors
    /// See the pieces.
    pub fn next_token_logits(&self, ctx: &Context, tokens: &Tokens, cache: Option<&mut dyn KvCache>) -> Result<Tensor> {
        let _kind = ledger::scope(ledger::Kind::Activations);
        let x = self.hidden(ctx, tokens, cache)?;
        let last = tokens
            .positions()
            .spans()
            .enumerate()
            .map(|(row, (_, length))| Ok(x.narrow(0, row, 1)?.narrow(1, length - 1, 1)?.squeeze(1)?));
        let last = Tensor::cat(&last.collect::<Result<Vec<_>>>()?, 0)?;
        self.head_logits(ctx, &last)
    }

    /// Sum of next-token losses: `targets[i]` is what should follow token `i` (batch-major, padding
    /// [`IGNORED`](ops::IGNORED)).
    ///
    /// # Errors
    /// See the pieces.
    pub fn loss(&self, ctx: &Context, tokens: &Tokens, targets: &[u32]) -> Result<LossSum> {
        let _kind = ledger::scope(ledger::Kind::Activations);
        let x = self.hidden(ctx, tokens, None)?;
        self.head_loss(ctx, &x, targets)
    }
}

fn elsewhere(what: &str) -> Error {
    Error::Model { origin: "this rank".into(), problem: format!("{what} is placed on another rank") }
}
