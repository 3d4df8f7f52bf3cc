//! What a model holds while it computes, by kind: predicted from its shape, and measured by the allocator.
//!
//! [`Plan::footprint`] is the published formula, for any shape: what every implementation must hold. [`Work`] is work on a model that is
//! loaded here: [`Work::predicted`] says what the decoder of this workspace holds for it, tensor by tensor, and [`Work::run`] does it. The two
//! are compared by [`Predicted::compare`].

use candle_core::{DType, Device};
use decoder::model::Footprint as DecoderFootprint;
use decoder::shape::{Activations, Footprint, ModelShape, Recompute, StateBytes, Training};
use decoder::split::Split;
use decoder::{Config, Context, Error, Tokens};
use lab::compared::Unit;
use lab::flags::RandomFlags;
use lab::loaded::Described;
use lab::{Compared, Comparison};
use ledger::{Kind, Ledger, Limit, Snapshot, Usage};
use std::ops::Range;
use std::sync::Arc;
use training::data::TokenData;
use training::footprint::training_peak;
use training::optimiser::{AdamW, Rule};
use training::run::Run;
use training::schedule::Schedule;

/// Prediction and measurement may differ by this share: the descriptors of tensors, and small ones that no formula names.
pub const TOLERANCE: f64 = 0.02;
/// Tokens that inference makes after the prompt, if the cache has room for them.
const DECODED: usize = 3;
/// Optimiser steps: the first makes the optimiser's state, the second computes while it is held.
const STEPS: u64 = 2;

/// What a shape is asked for: how much, and for training or not.
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
            state: state_bytes(self.dtype),
            activations: Activations { dtype: self.dtype, dropout: false, recompute: Recompute::Attention },
        })
    }
}

/// Bytes per parameter of training with AdamW: in 16 bits the master weights and moments are f32.
pub fn state_bytes(dtype: DType) -> StateBytes {
    match dtype {
        DType::F64 => StateBytes::ADAMW_F64,
        DType::F32 => StateBytes::ADAMW_F32,
        _ => StateBytes::ADAMW_MIXED,
    }
}

/// Work on a model that is loaded here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reading `batch` prompts of `prompt` tokens each, and a few tokens more, with a cache for `context` tokens of each.
    Inference {
        /// Sequences.
        batch: usize,
        /// Tokens of each prompt.
        prompt: usize,
        /// Tokens that the cache has room for, per sequence.
        context: usize,
    },
    /// Two steps of AdamW, each on `batch` sequences of `seq` tokens.
    Training {
        /// Sequences.
        batch: usize,
        /// Tokens of each.
        seq: usize,
    },
}

/// What a [`Work`] holds at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// Each kind at its own peak, in bytes.
    pub kinds: Vec<(Kind, u64)>,
    /// All together at theirs: in training less than the sum, because gradients come as activations go.
    pub device: u64,
    /// All together at most while two matrices are multiplied: in inference that is the peak, in training it need not be.
    pub in_products: u64,
}

impl Work {
    /// `inference` or `training`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Inference { .. } => "inference",
            Self::Training { .. } => "training",
        }
    }

    /// What the decoder of this workspace holds on the CPU for a model of this `config` in `dtype`: all but the scratch of the matrix
    /// library, which depends on the processor.
    ///
    /// # Errors
    /// A size of 0, or sizes whose bytes do not fit in 64 bits.
    pub fn predicted(&self, config: &Config, dtype: DType) -> Result<Predicted, Error> {
        self.check(config, dtype)?;
        match *self {
            Self::Inference { batch, prompt, context } => {
                let footprint = DecoderFootprint::new(config, batch, prompt, dtype, &Device::Cpu);
                let kinds = vec![
                    (Kind::Weights, footprint.weights()),
                    (Kind::Activations, footprint.inference_activations(batch as u64)),
                    (Kind::KvCache, footprint.kv_cache(batch, context)),
                ];
                let device = kinds.iter().map(|(_, bytes)| bytes).sum();
                Ok(Predicted { kinds, device, in_products: device })
            }
            Self::Training { batch, seq } => {
                let peak = training_peak(config, batch, seq, dtype, state_bytes(dtype).optimiser);
                let kinds = vec![
                    (Kind::Weights, peak.weights),
                    (Kind::Gradients, peak.gradients),
                    (Kind::Optimiser, peak.optimiser),
                    (Kind::Activations, peak.activations),
                ];
                Ok(Predicted { kinds, device: peak.device, in_products: peak.in_products })
            }
        }
    }

    /// The formulas of the decoder multiply unchecked sizes; the published one, which is of the same order, is checked.
    fn check(&self, config: &Config, dtype: DType) -> Result<(), Error> {
        let (batch, tokens) = match *self {
            Self::Inference { batch, prompt, context } => (batch, context.max(prompt)),
            Self::Training { batch, seq } => (batch, seq),
        };
        let plan = Plan { context: tokens as u64, batch: batch as u64, dtype, training: true };
        let shape = ModelShape::from_config(config)?;
        let total = plan.footprint(&shape)?.total()?;
        total
            .checked_add(shape.kv_bytes(plan.context, plan.batch, dtype)?)
            .and_then(|bytes| bytes.checked_mul(64))
            .map(drop)
            .ok_or_else(|| Error::Setting {
                name: "bytes",
                found: "a number of more than 64 bits".into(),
                expected: "a smaller --context, --seq or --batch".into(),
            })
    }

    /// Loads the model and does the work, for the current thread's ledger and under its limit, which is checked after each operation.
    ///
    /// # Errors
    /// The model cannot be loaded, a length exceeds its context, or more is held than the ledger's limit.
    pub fn run(&self, described: &Described, random: RandomFlags) -> lab::Result<()> {
        match *self {
            Self::Inference { batch, prompt, context } => infer(described, random, batch, prompt, context),
            Self::Training { batch, seq } => train(described, random, batch, seq),
        }
    }
}

impl Predicted {
    /// With the matrix library's scratch memory: what it keeps (`current`) and what it holds at most, within a product (`peak`).
    #[must_use]
    pub fn with_workspace(mut self, workspace: Usage) -> Self {
        self.kinds.push((Kind::Workspace, workspace.peak));
        self.in_products += workspace.peak;
        self.device = (self.device + workspace.current).max(self.in_products);
        self
    }

    /// Beside what was measured, by kind. Weights and cache must be equal, everything else within [`TOLERANCE`].
    pub fn compare(&self, measured: Option<&Snapshot>) -> Comparison {
        self.kinds.iter().fold(Comparison::default(), |comparison, &(kind, predicted)| {
            let peak = measured.map(|snapshot| snapshot.of(kind).peak);
            comparison.with(match kind {
                Kind::Weights | Kind::KvCache => Compared::exact(kind.name(), predicted, peak, Unit::Bytes),
                _ => within(kind.name(), predicted, peak),
            })
        })
    }
}

/// Bytes that must agree within [`TOLERANCE`].
pub fn within(what: &str, predicted: u64, measured: Option<u64>) -> Compared {
    Compared::within(what, predicted as f64, measured.map(|bytes| bytes as f64), TOLERANCE, Unit::Bytes)
}

fn infer(described: &Described, random: RandomFlags, batch: usize, prompt: usize, context: usize) -> lab::Result<()> {
    let model = random.load(described, &Split::whole())?;
    let mut cache = model.cache(batch, context)?;
    let ctx = Context::inference().with_observer(Arc::new(Limit));
    let mut feed = |positions: Range<usize>| {
        let row = ids(described.config.vocab, positions.clone());
        let tokens = Tokens::new(&vec![row.as_slice(); batch], vec![positions.start; batch], model.device())?;
        model.next_token_logits(&ctx, &tokens, Some(&mut cache)).map(drop)
    };
    feed(0..prompt)?;
    Ok((prompt..context).take(DECODED).try_for_each(|position| feed(position..position + 1))?)
}

fn train(described: &Described, random: RandomFlags, batch: usize, seq: usize) -> lab::Result<()> {
    let ctx = Context::inference().with_observer(Arc::new(Limit));
    let mut run = training_run(described, random, batch, seq, ctx)?;
    while !run.is_done() {
        run.step()?;
        // The optimiser is not an observed operation, but its state may be what no longer fits.
        Ledger::of_this_thread().check()?;
    }
    Ok(())
}

/// The run that [`Work::Training`] is: two steps of AdamW, on `batch` sequences of `seq` tokens that stand for any others.
///
/// # Errors
/// The model cannot be loaded or trained, or a setting has no meaning.
pub fn training_run(
    described: &Described,
    random: RandomFlags,
    batch: usize,
    seq: usize,
    ctx: Context,
) -> lab::Result<Run> {
    let model = random.load(described, &Split::whole())?;
    let vocab = described.config.vocab;
    let data = TokenData::new(ids(vocab, 0..batch * seq + 1), vocab)?;
    let plan = training::plan::Plan {
        batch,
        seq,
        micro_batches: 1,
        steps: STEPS,
        rule: Rule::AdamW(AdamW::default()),
        schedule: Schedule::constant(1e-3)?,
        clip: Some(1.0),
        seed: 0,
    };
    Ok(Run::new(plan, model, Arc::new(data), ctx)?)
}

/// Some token ids; what is held does not depend on which.
fn ids(vocab: usize, positions: Range<usize>) -> Vec<u32> {
    positions.map(|position| u32::try_from(position * 7919 % vocab).unwrap_or(0)).collect()
}
