//! The KV cache: what it holds, and what it saves.
//!
//! Two questions, each answered by a formula and by a run:
//!
//! - how many bytes? [`cache_bytes`] beside the allocator's count ([`allocated`]);
//! - how many FLOPs does the next token cost? With the cache one row of work whose attention is O(n) ([`Step`] `cached`), without it
//!   all n rows again, O(n²) ([`decode_steps`] runs both).
//!
//! And where the two meet: from [`crossing`] on, a step reads more bytes of keys and values than of weights.

use candle_core::DType;
use decoder::shape::{Flops, ModelShape};
use decoder::{Config, Context, Decoder, Error, Result, Tokens};
use lab::timing::Timing;
use ledger::{Kind, Ledger, Operation, Record};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Contexts beyond this are not searched for a crossing: with windows in every layer there may be none.
const LONGEST: u64 = 1 << 40;

/// Bytes of this decoder's cache in `dtype` with room for `batch` sequences of `context` tokens. It keeps every token, also those that a
/// layer with a sliding window no longer sees; without windows this is [`ModelShape::kv_bytes`].
///
/// # Errors
/// As [`ModelShape::kv_bytes`].
pub fn cache_bytes(config: &Config, context: usize, batch: usize, dtype: DType) -> Result<u64> {
    let mut shape = ModelShape::from_config(config)?;
    shape.layers.iter_mut().for_each(|run| run.window = None);
    shape.kv_bytes(context as u64, batch as u64, dtype)
}

/// Bytes that the ledger counts when a cache is made: `None` where nothing is measured.
///
/// # Errors
/// A context longer than the model's, or no room.
pub fn allocated(decoder: &Decoder, context: usize, batch: usize) -> Result<Option<u64>> {
    let held = || Ledger::of_this_thread().current(Kind::KvCache);
    let before = held();
    let cache = decoder.cache(batch, context)?;
    let bytes = held().zip(before).map(|(after, before)| after.saturating_sub(before));
    drop(cache);
    Ok(bytes)
}

/// Tokens of context from which on a decode step of one sequence reads at least as many bytes of keys and values as of weights.
/// `None` if that never happens, because every layer has a window.
///
/// # Errors
/// A number does not fit in 64 bits.
pub fn crossing(shape: &ModelShape, weights: DType, cache: DType) -> Result<Option<u64>> {
    let weights = shape.decode_weight_bytes(weights)?;
    let enough = |context| Ok::<_, Error>(shape.kv_bytes(context, 1, cache)? >= weights);
    let mut high = 1;
    while !enough(high)? {
        if high >= LONGEST {
            return Ok(None);
        }
        high *= 2;
    }
    let mut low = high / 2;
    // `low` is not enough (0 holds nothing), `high` is.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(high))
}

/// FLOPs of the matrix products of a forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Products {
    /// Rows times weights.
    pub linear: u64,
    /// Queries times keys, weights times values.
    pub attention: u64,
}

impl Products {
    /// Both.
    pub fn total(&self) -> u64 {
        self.linear + self.attention
    }

    /// The predicted ones.
    ///
    /// # Errors
    /// They do not fit in 64 bits.
    pub fn predicted(flops: &Flops) -> Result<Self> {
        let linear = flops.total() - flops.attention;
        let narrow = |flops: u128| {
            u64::try_from(flops).map_err(|_| Error::Setting {
                name: "context",
                found: format!("{flops} FLOPs in one step"),
                expected: "a step that can be run here".into(),
            })
        };
        narrow(flops.total())?;
        Ok(Self { linear: narrow(linear)?, attention: narrow(flops.attention)? })
    }

    /// Those of the operations that were observed: by name, so that element-wise work is left out, as it is in the formula.
    pub fn counted(operations: &[Operation]) -> Self {
        let sum =
            |name| operations.iter().filter(|operation| operation.name == name).map(|operation| operation.flops).sum();
        Self { linear: sum("linear"), attention: sum("attention") }
    }
}

/// One decode step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Step {
    /// FLOPs by the formula.
    pub predicted: Products,
    /// FLOPs as observed.
    pub counted: Products,
    /// How long it took.
    pub timing: Timing,
}

/// The step that makes the token after `context` tokens, in both ways.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Steps {
    /// Tokens that the new one sees, itself included.
    pub context: usize,
    /// Keys and values of the others come from the cache.
    pub cached: Step,
    /// All tokens are computed again.
    pub uncached: Step,
}

/// Runs a step with and without the cache at each of `contexts` (rising), each repeated for about `budget`, one sequence.
///
/// # Errors
/// A context of 0, or one that exceeds the model's.
pub fn decode_steps(decoder: &Decoder, contexts: &[usize], budget: Duration) -> Result<Vec<Steps>> {
    let shape = ModelShape::from_config(decoder.config())?;
    let longest = contexts.iter().copied().max().unwrap_or(0);
    let ids = ids(decoder.config().vocab, longest);
    let mut cache = decoder.cache(1, longest)?;
    let mut filled = 0;
    let mut steps = Vec::new();
    for &context in contexts {
        let Some((last, past)) = ids.get(..context).and_then(<[u32]>::split_last) else {
            return Err(Error::Setting { name: "context", found: "0".into(), expected: "at least 1".into() });
        };
        if filled < past.len() {
            let new = Tokens::new(&[&past[filled..]], vec![filled], decoder.device())?;
            decoder.hidden(&Context::inference(), &new, Some(&mut cache))?;
            filled = past.len();
        }
        // Storing a token again where it stands already changes nothing, so a step can be repeated.
        let token = Tokens::new(&[&[*last]], vec![past.len()], decoder.device())?;
        let all = Tokens::from_zero(&[&ids[..context]], decoder.device())?;
        let (cached, uncached) =
            (shape.decode_step_flops(1, context as u64)?, shape.decode_step_without_cache_flops(1, context as u64)?);
        steps.push(Steps {
            context,
            cached: step(&cached, budget, |ctx| decoder.next_token_logits(ctx, &token, Some(&mut cache)).map(drop))?,
            uncached: step(&uncached, budget, |ctx| decoder.next_token_logits(ctx, &all, None).map(drop))?,
        });
    }
    Ok(steps)
}

/// Counts one run of `work`, then times it unobserved.
fn step(predicted: &Flops, budget: Duration, mut work: impl FnMut(&Context) -> Result<()>) -> Result<Step> {
    let record = Arc::new(Record::default());
    work(&Context::inference().with_observer(record.clone()))?;
    let ctx = Context::inference();
    Ok(Step {
        predicted: Products::predicted(predicted)?,
        counted: Products::counted(&record.take()),
        timing: Timing::of(budget, || work(&ctx))?,
    })
}

/// Some token ids; the cost of a step does not depend on which.
fn ids(vocab: usize, count: usize) -> Vec<u32> {
    (0..count).map(|index| u32::try_from((index * 7919 + 13) % vocab.max(1)).unwrap_or(0)).collect()
}
