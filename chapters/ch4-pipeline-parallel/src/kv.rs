//! The KV cache by layer and by head: what each rank holds, and what it sends for one token.

use crate::inference::{Server, generate};
use crate::schedule::Layout;
use crate::stages::{LayerCosts, Stages, balanced_cuts};
use crate::{Error, Result};
use collective::volume::{self, Place};
use collective::{Algorithm, Options, launch};
use decoder::Context;
use decoder::generation::Options as Generation;
use decoder::model::activation_dtype;
use decoder::shape::{Attention, ModelShape};
use lab::loaded::Described;
use lab::subject::Subject;
use ledger::Kind;
use serde::Serialize;

/// Along what the cache is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// Each rank has some layers: a pipeline.
    Layer,
    /// Each rank has some heads of every layer: tensor parallelism.
    Head,
}

/// What the ranks have of a cache, and send.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// Along what.
    pub cut: Cut,
    /// Layers, or kv heads, of each rank.
    pub units: Vec<u64>,
    /// Bytes of each rank.
    pub bytes: Vec<u64>,
    /// Bytes that each rank sends while one token of every sequence is made.
    pub sent: Vec<u64>,
    /// Bytes of the whole cache.
    pub whole: u64,
}

/// The model's shape, and bytes per element of its cache: of a published model by name, or of one that can be loaded.
///
/// # Errors
/// Its shape makes no sense.
pub fn shape(subject: &Subject) -> decoder::Result<(ModelShape, u64)> {
    match subject {
        // Published shapes are of 16-bit models.
        Subject::Published(model) => Ok((model.shape.clone(), 2)),
        Subject::Loaded(described) => {
            let element = activation_dtype(described.dtype, &described.device).size_in_bytes() as u64;
            Ok((ModelShape::from_config(&described.config)?, element))
        }
    }
}

/// What a stage really holds and sends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes of its cache; `None` where nothing is measured.
    pub bytes: Option<u64>,
    /// Bytes that it sent while one token of every sequence was made.
    pub sent: u64,
}

/// A pipeline with `layers[r]` layers on stage r makes one token for each of `batch` sequences with room for `context` tokens.
///
/// # Errors
/// The layers are not those of the model, or a stage failed.
pub fn measured(described: &Described, layers: &[u64], batch: usize, context: usize) -> Result<Vec<Measured>> {
    let counts: Vec<usize> = layers.iter().map(|&count| count as usize).collect();
    let stages = Stages::by_hand(Layout::Straight, counts.len(), described.config.layers, &counts)?;
    let options = Generation { max_tokens: 1, ..Generation::default() };
    let prompts = vec![vec![0]; batch];
    let ranks = launch(counts.len(), &Options::default(), |rank| {
        let split = stages.split(rank.rank());
        let model = described.load(&split)?;
        let before = rank.ledger().snapshot().map(|snapshot| snapshot.of(Kind::KvCache).current);
        let cache = model.cache(batch, context)?;
        let after = rank.ledger().snapshot().map(|snapshot| snapshot.of(Kind::KvCache).current);
        drop(cache);
        let ctx = Context::inference().with_split(split);
        let communicator = rank.communicator().as_ref();
        let server = Server { stages: &stages, communicator, model: &model, context: &ctx };
        generate(&server, &prompts, &options, 1, |_, _| Ok(()))?;
        let bytes = before.zip(after).map(|(before, after)| after - before);
        Ok::<_, Error>(Measured { bytes, sent: communicator.traffic().sent().total() })
    })?;
    Ok(ranks)
}

impl Shares {
    /// Of `batch` sequences of `context` tokens, `width` bytes per element.
    ///
    /// Messages per token: by layer one hidden state per sequence to the next stage, and the chosen tokens (u32) from the last back to
    /// the first; by head two all-reduces (ring) of the hidden states per layer.
    ///
    /// # Errors
    /// More ranks than layers; ranks and kv heads of which neither divides the other; latent attention, whose cache has no heads.
    pub fn of(
        cut: Cut,
        shape: &ModelShape,
        ranks: usize,
        batch: usize,
        context: usize,
        width: u64,
    ) -> lab::Result<Self> {
        let wrong = |expected: String| Err(lab::Error::Flag { flag: "--ranks", found: ranks.to_string(), expected });
        let Attention::Grouped { heads, kv_heads, head_dim, .. } = shape.attention else {
            return wrong(
                "a model with key and value heads; this one caches latents, which all heads share".to_owned(),
            );
        };
        let layers: u64 = shape.layers.iter().map(|run| run.count.get()).sum();
        let (heads, kv_heads, head_dim, hidden) = (heads.get(), kv_heads.get(), head_dim.get(), shape.hidden.get());
        let tokens = batch as u64 * context as u64;
        let per_head_and_layer = 2 * head_dim * tokens * width;
        let whole = layers * kv_heads * per_head_and_layer;
        if ranks == 0 {
            return wrong("at least 1".to_owned());
        }
        let state = batch * hidden as usize;
        match cut {
            Cut::Layer => {
                if ranks as u64 > layers {
                    return wrong(format!("the model has {layers} layers: at most as many ranks"));
                }
                let even = LayerCosts { embedding: 0.0, layers: vec![1.0; layers as usize], head: 0.0 };
                let units: Vec<u64> = balanced_cuts(&even, ranks).iter().map(|chunk| chunk.len() as u64).collect();
                let sent = |rank| match rank {
                    _ if ranks == 1 => 0,
                    _ if rank + 1 < ranks => state as u64 * width,
                    _ => 4 * batch as u64,
                };
                let bytes = units.iter().map(|layers| layers * kv_heads * per_head_and_layer).collect();
                Ok(Self { cut, bytes, sent: (0..ranks).map(sent).collect(), units, whole })
            }
            Cut::Head => {
                let (ranks64, legal) = (ranks as u64, |r: u64| {
                    heads.is_multiple_of(r) && (kv_heads.is_multiple_of(r) || r.is_multiple_of(kv_heads))
                });
                if !legal(ranks64) {
                    let all: Vec<_> = (1..=heads).filter(|&r| legal(r)).map(|r| r.to_string()).collect();
                    return wrong(format!(
                        "{heads} heads and {kv_heads} kv heads can be cut for {} ranks",
                        all.join(", ")
                    ));
                }
                let each = (kv_heads / ranks64).max(1);
                let all_reduce = |rank| {
                    volume::all_reduce(Algorithm::Ring, &Place::flat(rank, ranks), state, width as usize).total()
                };
                let sent = (0..ranks).map(|rank| 2 * layers * all_reduce(rank)).collect();
                let bytes = vec![layers * each * per_head_and_layer; ranks];
                Ok(Self { cut, units: vec![each; ranks], bytes, sent, whole })
            }
        }
    }

    /// The average rank's bytes over the fullest one's.
    pub fn balance(&self) -> f64 {
        let (sum, most) = (self.bytes.iter().sum::<u64>() as f64, self.bytes.iter().max().copied().unwrap_or(0));
        sum / self.bytes.len() as f64 / most as f64
    }

    /// How often the average key is held.
    pub fn copies(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / self.whole as f64
    }
}
