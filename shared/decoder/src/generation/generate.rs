//! Prefill, then one token after another: "the dog" → "sat", which is fed back for the next.
//!
//! All prompts of a batch go through the model together, whatever their lengths. With a cache each step computes only the
//! newest token; without one it computes every token again, which is what the cache saves.

use super::sampling::{Sampler, Sampling};
use crate::cache::{Contiguous, KvCache};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::Decoder;
use crate::positions::Tokens;
use candle_core::{DType, Tensor};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// What to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How a token is chosen; row `r` of a batch draws with `seed + r`.
    pub sampling: Sampling,
    /// Tokens to generate at most, per prompt.
    pub max_tokens: usize,
    /// Whether keys and values of past tokens are kept.
    pub cache: bool,
    /// Whether a token that ends a sequence ends the generation.
    pub stop_at_eos: bool,
}

impl Default for Options {
    /// 64 tokens, greedy, with a cache, up to the end of the sequence.
    fn default() -> Self {
        Self { sampling: Sampling::default(), max_tokens: 64, cache: true, stop_at_eos: true }
    }
}

/// What was generated for a batch, and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// New ids per prompt, an end-of-sequence token included.
    pub ids: Vec<Vec<u32>>,
    /// From the start to the first token of every prompt (time to first token).
    pub prefill: Duration,
    /// From there to the last token.
    pub decode: Duration,
    /// Decode steps that were run: the batch's longest continuation less one.
    pub steps: usize,
}

impl Generated {
    /// Tokens that decode steps made: all but the first of each prompt.
    pub fn decoded(&self) -> usize {
        self.ids.iter().map(|ids| ids.len().saturating_sub(1)).sum()
    }

    /// Tokens per second of the decode steps, over the batch; `None` if there was none.
    pub fn decode_rate(&self) -> Option<f64> {
        (self.decoded() > 0).then(|| self.decoded() as f64 / self.decode.as_secs_f64())
    }
}

/// Continues every prompt. `on_token(row, id)` hears of each token as soon as it is chosen, and may break off.
///
/// # Errors
/// An empty prompt or an id outside of the vocabulary; prompt and `max_tokens` together exceed the context
/// ([`Error::ContextLength`]); NaN logits; or whatever `on_token` returns.
pub fn generate(
    model: &Decoder,
    ctx: &Context,
    prompts: &[Vec<u32>],
    options: &Options,
    mut on_token: impl FnMut(usize, u32) -> Result<ControlFlow<()>>,
) -> Result<Generated> {
    let longest = check(model, prompts, options)?;
    let mut rows: Vec<Row> =
        prompts.iter().enumerate().map(|(row, prompt)| Row::new(row, prompt, options)).collect::<Result<_>>()?;
    let kept = ctx.split.attend.kept(longest + options.max_tokens);
    let mut cache = options.cache.then(|| model.cache(rows.len(), kept)).transpose()?;
    let start = Instant::now();
    let (mut prefill, mut steps) = (Duration::ZERO, 0);
    let mut stopped = false;
    for step in 0..options.max_tokens {
        let logits = next_logits(model, ctx, &mut rows, cache.as_mut())?;
        for (index, (row, logits)) in rows.iter_mut().zip(&logits).enumerate().filter(|(_, (row, _))| !row.done) {
            let id = row.sampler.sample(logits, &row.ids)?;
            row.ids.push(id);
            row.done = options.stop_at_eos && model.config().eos.contains(&id);
            stopped |= on_token(index, id)?.is_break();
        }
        if step == 0 {
            prefill = start.elapsed();
        }
        steps = step;
        if stopped || rows.iter().all(|row| row.done) {
            break;
        }
    }
    let ids = rows.into_iter().zip(prompts).map(|(row, prompt)| row.ids[prompt.len()..].to_vec()).collect();
    Ok(Generated { ids, prefill, decode: start.elapsed() - prefill, steps })
}

/// One sequence of the batch.
struct Row {
    ids: Vec<u32>,
    /// Tokens whose keys and values are in the cache.
    cached: usize,
    done: bool,
    sampler: Sampler,
}

impl Row {
    fn new(row: usize, prompt: &[u32], options: &Options) -> Result<Self> {
        let seed = options.sampling.seed.wrapping_add(row as u64);
        let sampler = Sampler::new(Sampling { seed, ..options.sampling.clone() })?;
        Ok(Self { ids: prompt.to_vec(), cached: 0, done: false, sampler })
    }

    /// What is fed next. A finished row feeds its last token again, so that the batch keeps its shape; nobody looks.
    fn feed(&self) -> &[u32] {
        &self.ids[self.cached.min(self.ids.len() - 1)..]
    }
}

/// Logits of every row's next token, `[batch][vocab]`.
fn next_logits(
    model: &Decoder,
    ctx: &Context,
    rows: &mut [Row],
    cache: Option<&mut Contiguous>,
) -> Result<Vec<Vec<f32>>> {
    let fed: Vec<&[u32]> = rows.iter().map(Row::feed).collect();
    let starts = rows.iter().zip(&fed).map(|(row, fed)| row.ids.len() - fed.len()).collect();
    let tokens = Tokens::new(&fed, starts, model.device())?;
    let cached = cache.is_some();
    let logits = model.next_token_logits(ctx, &tokens, cache.map(|cache| cache as &mut dyn KvCache))?;
    for row in rows.iter_mut().filter(|_| cached) {
        row.cached = row.ids.len();
    }
    to_rows(&logits)
}

fn to_rows(logits: &Tensor) -> Result<Vec<Vec<f32>>> {
    let _kind = ledger::scope(ledger::Kind::Host);
    Ok(logits.to_dtype(DType::F32)?.to_vec2()?)
}

/// Refuses what cannot be generated before anything is computed; returns the longest prompt's length.
fn check(model: &Decoder, prompts: &[Vec<u32>], options: &Options) -> Result<usize> {
    options.sampling.validate()?;
    let vocab = model.config().vocab;
    let refuse =
        |found: String, expected: &str| Err(Error::Setting { name: "--prompt", found, expected: expected.into() });
    if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
        return refuse("no tokens".into(), "a model continues at least one token; give some text");
    }
    if let Some(id) = prompts.iter().flatten().find(|&&id| id as usize >= vocab) {
        return refuse(format!("token {id}"), &format!("ids below the model's vocabulary of {vocab}"));
    }
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let needed = longest.saturating_add(options.max_tokens);
    if needed > model.config().context {
        return Err(Error::ContextLength { needed, available: model.config().context });
    }
    Ok(longest)
}
