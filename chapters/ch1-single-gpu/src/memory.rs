//! What a model holds while it computes, by kind: predicted from its shape, and measured by the allocator.
//!
//! [`Plan`] says what is to be held (how long a context, how many sequences, for training or not), [`Plan::footprint`] predicts it for any
//! shape, [`Plan::predicted`] for a model that is loaded here, and [`measure_inference`] runs it.

use anyhow::Context as _;
use candle_core::DType;
use decoder::config::Config;
use decoder::model::activation_dtype;
use decoder::shape::{Activations, Footprint, ModelShape, Recompute, StateBytes, Training};
use decoder::split::Split;
use decoder::{Context, Error, Tokens};
use lab::flags::RandomFlags;
use lab::loaded::Described;
use ledger::{Kind, Ledger, Snapshot};

/// What is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tokens per sequence.
    pub context: u64,
    /// Sequences.
    pub batch: u64,
    /// Type of the weights, and of the cache or the activations.
    pub dtype: DType,
    /// Training with AdamW, in place of generating.
    pub training: bool,
}

impl Plan {
    /// What a model of this `shape` holds: weights and KV cache, or all that training takes. The attention weights are computed again in
    /// the backward, as fused attention does.
    ///
    /// # Errors
    /// A context or batch of 0, a number that does not fit in 64 bits.
    pub fn footprint(&self, shape: &ModelShape) -> Result<Footprint, Error> {
        if !self.training {
            return shape.inference_footprint(self.context, self.batch, self.dtype);
        }
        shape.training_footprint(&Training {
            batch: self.batch,
            tokens: self.context,
            state: self.state(),
            activations: Activations { dtype: self.dtype, dropout: false, recompute: Recompute::Attention },
        })
    }

    /// Bytes per parameter of training: in 16 bits the master weights and moments are f32.
    pub fn state(&self) -> StateBytes {
        match self.dtype {
            DType::F64 => StateBytes::ADAMW_F64,
            DType::F32 => StateBytes::ADAMW_F32,
            _ => StateBytes::ADAMW_MIXED,
        }
    }

    /// The prediction for the decoder of this workspace on the CPU, by kind. Generating also holds the intermediate results of the prompt,
    /// which this decoder keeps no longer than it needs them ([`prefill_activation_bytes`]).
    ///
    /// # Errors
    /// As [`Plan::footprint`].
    pub fn predicted(&self, config: &Config) -> Result<Vec<(Kind, u64)>, Error> {
        let shape = ModelShape::from_config(config)?;
        let activations = activation_dtype(self.dtype, &candle_core::Device::Cpu);
        if self.training {
            let held = self.footprint(&shape)?;
            return Ok(vec![
                (Kind::Weights, held.weights),
                (Kind::Gradients, held.gradients),
                (Kind::Optimiser, held.optimiser),
                (Kind::Activations, held.activations),
            ]);
        }
        Ok(vec![
            (Kind::Weights, shape.weight_bytes(self.dtype)?),
            (Kind::Activations, prefill_activation_bytes(config, self.context, self.batch, activations)?),
            (Kind::KvCache, crate::kv::cache_bytes(&shape, self.context, self.batch, activations)?),
        ])
    }
}

/// Most bytes of intermediate results that exist at once while `batch` prompts of `context` tokens are read. Per token, in elements:
///
/// - rotary embedding: cos and sin of each frequency, head_dim;
/// - the layer's input, which its caller holds: hidden; and then the larger of
///   - in attention: the normed input, q, k, v, rotated q and k, the result: hidden + 3·heads·head_dim + 3·kv_heads·head_dim;
///   - in the feed-forward network: the sum after attention, its norm, gate, up, their product, the result: 3·hidden + 3·ffn.
///
/// At the end there are logits for the last token of each prompt, beside the last layer's result.
///
/// # Errors
/// The result does not fit in 64 bits.
pub fn prefill_activation_bytes(config: &Config, context: u64, batch: u64, dtype: DType) -> Result<u64, Error> {
    let [hidden, ffn, vocab, rotary] =
        [config.hidden, config.ffn, config.vocab, config.head_dim].map(|size| size as u128);
    let [q, kv] = [config.query_width(), config.kv_width()].map(|size| size as u128);
    let attention = hidden + 3 * q + 3 * kv;
    let feed_forward = 3 * hidden + 3 * ffn;
    // Sizes of a config fit in 64 bits, so a sum of a few of them fits in 128; only the products may not.
    let rows = u128::from(context) * u128::from(batch);
    let layer = rows.checked_mul(rotary + hidden + attention.max(feed_forward));
    let head = (rows.checked_mul(rotary + hidden)).zip(u128::from(batch).checked_mul(hidden + vocab));
    let elements = layer.zip(head.and_then(|(x, logits)| x.checked_add(logits))).map(|(layer, head)| layer.max(head));
    let bytes = elements.and_then(|elements| elements.checked_mul(dtype.size_in_bytes() as u128));
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(|| Error::Setting {
        name: "activation bytes",
        found: "a number of more than 64 bits".into(),
        expected: "a smaller --context or --batch".into(),
    })
}

/// Loads the model, makes the cache and reads prompts that fill it; what was held then. `None` where nothing is measured.
///
/// What the current ledger holds already is in it: enter a new one before, and the pool that computes after.
///
/// # Errors
/// The model cannot be loaded, or the context exceeds its own.
pub fn measure_inference(
    described: &Described,
    random: RandomFlags,
    context: usize,
    batch: usize,
) -> anyhow::Result<Option<Snapshot>> {
    let model =
        random.load(described, &Split::whole()).context("loading the model (--random SEED needs no weights)")?;
    let mut cache = model.cache(batch, context)?;
    let ids: Vec<u32> = {
        let _kind = ledger::scope(Kind::Host);
        (0..context).map(|index| u32::try_from(index % model.config().vocab)).collect::<Result<_, _>>()?
    };
    let tokens = Tokens::from_zero(&vec![ids.as_slice(); batch], model.device())?;
    model.next_token_logits(&Context::inference(), &tokens, Some(&mut cache))?;
    Ok(Ledger::of_this_thread().snapshot())
}
