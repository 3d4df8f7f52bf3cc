//! From the logits of one position to the next token.
//!
//! The order is that of Hugging Face's `generate`: repetition penalty, temperature, top-k, top-p, then one draw. The
//! random numbers are our own ([`Rng`]), so a seed gives one text, whatever the machine. Ties go to the lower id at
//! every step. [`Sampling`] is what the user asks for; [`Sampler`] is that, checked, with the state of the draw.

use std::collections::HashSet;

use crate::random::Rng;
use crate::{Error, Result};

/// How the next token is chosen, as the user says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the best token always.
    pub temperature: f64,
    /// Only this many of the most likely tokens may be drawn; all if `None`.
    pub top_k: Option<usize>,
    /// Only the most likely tokens that together reach this probability may be drawn; all if `None`.
    pub top_p: Option<f64>,
    /// Logits of tokens that occurred are divided by it where positive, multiplied where negative; 1 changes nothing.
    pub repeat_penalty: f32,
    /// How many of the last tokens (prompt included) count as having occurred.
    pub repeat_last_n: usize,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Sampling {
    /// Greedy, without a penalty.
    fn default() -> Self {
        Self { temperature: 0.0, top_k: None, top_p: None, repeat_penalty: 1.0, repeat_last_n: 64, seed: 0 }
    }
}

impl Sampling {
    /// Refuses values that have no meaning; the error names the flag and the legal values.
    pub fn validate(&self) -> Result<()> {
        let check = |legal: bool, name, found: String, expected: &str| {
            if legal { Ok(()) } else { Err(Error::Setting { name, found, expected: expected.to_owned() }) }
        };
        let Self { temperature, top_k, top_p, repeat_penalty, repeat_last_n, seed: _ } = self;
        check(
            temperature.is_finite() && *temperature >= 0.0,
            "--temperature",
            temperature.to_string(),
            "a number from 0 up; 0 takes the best token always",
        )?;
        check(
            *top_k != Some(0),
            "--top-k",
            "0".to_owned(),
            "a whole number from 1 up; 1 takes the best token, leave the flag out to consider every token",
        )?;
        check(
            top_p.is_none_or(|p| p > 0.0 && p <= 1.0),
            "--top-p",
            top_p.unwrap_or(f64::NAN).to_string(),
            "above 0, at most 1; for the best token always use --temperature 0, for every token leave the flag out",
        )?;
        check(
            repeat_penalty.is_finite() && *repeat_penalty > 0.0,
            "--repeat-penalty",
            repeat_penalty.to_string(),
            "a number above 0; 1 changes nothing",
        )?;
        check(
            *repeat_last_n > 0 || *repeat_penalty == 1.0,
            "--repeat-last-n",
            "0".to_owned(),
            "a whole number from 1 up, or --repeat-penalty 1 for no penalty",
        )
    }
}

/// Chooses tokens, one sequence's worth: it holds the random state. Ranks that hold equal samplers and see equal
/// logits choose equal tokens.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    rng: Rng,
}

impl Sampler {
    /// A sampler at the start of its seed's sequence; an error if the settings are not legal.
    pub fn new(sampling: Sampling) -> Result<Self> {
        sampling.validate()?;
        let rng = Rng::new(sampling.seed);
        Ok(Self { sampling, rng })
    }

    /// The settings.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// The next token after `history` (prompt and generated ids so far), from that position's `logits` `[vocab]`.
    ///
    /// A logit of +∞ wins over every finite one. Logits that are NaN, all −∞ or absent are an error.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32> {
        check_numbers(logits, history.len())?;
        let mut candidates: Vec<Candidate> = (0..).zip(logits).map(|(id, &logit)| Candidate { id, logit }).collect();
        self.penalise(&mut candidates, history)?;
        let best = best(&candidates);
        if self.sampling.temperature == 0.0 {
            return Ok(best.id);
        }
        if best.logit == f32::INFINITY {
            // e^(∞ − ∞) has no value; the limit is an even choice between the infinite ones.
            candidates.retain(|candidate| candidate.logit == f32::INFINITY);
            return Ok(candidates[self.rng.below(candidates.len())].id);
        }
        if let Some(k) = self.sampling.top_k {
            keep_top(&mut candidates, k);
        }
        let weight = |candidate: &Candidate| {
            ((f64::from(candidate.logit) - f64::from(best.logit)) / self.sampling.temperature).exp()
        };
        if let Some(p) = self.sampling.top_p.filter(|&p| p < 1.0) {
            keep_nucleus(&mut candidates, p, weight);
        }
        let target = self.rng.uniform() * candidates.iter().map(weight).sum::<f64>();
        Ok(draw(&candidates, target, weight).unwrap_or(best).id)
    }

    /// The repetition penalty (Keskar et al., 2019, *CTRL*, section 4.1): once per distinct token, however often it
    /// occurred.
    fn penalise(&self, candidates: &mut [Candidate], history: &[u32]) -> Result<()> {
        let penalty = self.sampling.repeat_penalty;
        if penalty == 1.0 {
            return Ok(());
        }
        let recent = &history[history.len().saturating_sub(self.sampling.repeat_last_n)..];
        let vocab = candidates.len();
        for id in recent.iter().collect::<HashSet<_>>() {
            let logit = match candidates.get_mut(*id as usize) {
                Some(candidate) => &mut candidate.logit,
                None => {
                    return Err(Error::Logits { problem: format!("token {id} occurred, but there are only {vocab}") });
                }
            };
            // A token that was possible stays possible: its logit must not sink to −∞.
            if *logit > 0.0 {
                *logit /= penalty;
            } else if logit.is_finite() {
                *logit = (*logit * penalty).max(f32::MIN);
            }
        }
        Ok(())
    }
}

/// A token that may still be chosen.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    logit: f32,
}

/// Best first: higher logit, then lower id.
fn by_rank(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    // No NaN gets here, and −0 must equal 0, which rules out `total_cmp`.
    b.logit.partial_cmp(&a.logit).unwrap_or(std::cmp::Ordering::Equal).then(a.id.cmp(&b.id))
}

/// The first of the candidates (in the order of their ids) with the highest logit.
fn best(candidates: &[Candidate]) -> Candidate {
    let start = Candidate { id: 0, logit: f32::NEG_INFINITY };
    candidates.iter().fold(start, |best, &next| if next.logit > best.logit { next } else { best })
}

/// Keeps the `k` best.
fn keep_top(candidates: &mut Vec<Candidate>, k: usize) {
    if k < candidates.len() {
        candidates.select_nth_unstable_by(k, by_rank);
        candidates.truncate(k);
    }
}

/// Keeps the smallest set of best candidates whose probability reaches `p` (Holtzman et al., 2020): each one before
/// which less than `p` has been collected. Best first afterwards.
fn keep_nucleus(candidates: &mut Vec<Candidate>, p: f64, weight: impl Fn(&Candidate) -> f64) {
    let target = p * candidates.iter().map(&weight).sum::<f64>();
    // The nucleus is mostly small: sorting ever larger heads is cheaper than sorting a vocabulary.
    let mut head = 64;
    loop {
        head = head.min(candidates.len());
        if head < candidates.len() {
            candidates.select_nth_unstable_by(head, by_rank);
        }
        candidates[..head].sort_unstable_by(by_rank);
        let mut collected = 0.0;
        let kept = candidates[..head].iter().take_while(|candidate| {
            let below = collected < target;
            collected += weight(candidate);
            below
        });
        let kept = kept.count();
        if kept < head || head == candidates.len() {
            candidates.truncate(kept.max(1));
            return;
        }
        head *= 8;
    }
}

/// The candidate in whose stretch of the line of weights `target` lies.
fn draw(candidates: &[Candidate], mut target: f64, weight: impl Fn(&Candidate) -> f64) -> Option<Candidate> {
    for candidate in candidates {
        target -= weight(candidate);
        if target < 0.0 {
            return Some(*candidate);
        }
    }
    // Rounding can leave a little of the target over: it belongs to the last candidate that can be drawn at all.
    candidates.iter().rev().find(|candidate| weight(candidate) > 0.0).copied()
}

/// The token with the highest logit, the lowest id on ties. NaN, all −∞ and no logits at all are errors, where
/// candle's argmax says 0; `position` (tokens before it) is for the message.
pub fn argmax(logits: &[f32], position: usize) -> Result<u32> {
    check_numbers(logits, position)?;
    let candidates: Vec<Candidate> = (0..).zip(logits).map(|(id, &logit)| Candidate { id, logit }).collect();
    Ok(best(&candidates).id)
}

/// By how much the best logit exceeds the second best: below the tolerance of the arithmetic, a greedy choice is a
/// matter of rounding. `None` if there are fewer than two logits or one is NaN; 0 for two that are infinite.
pub fn margin(logits: &[f32]) -> Option<f32> {
    if logits.len() < 2 || logits.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    let start = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    let (first, second) = logits
        .iter()
        .fold(start, |(first, second), &logit| if logit > first { (logit, first) } else { (first, second.max(logit)) });
    Some(if first == second { 0.0 } else { first - second })
}

/// An error that says how many logits are no numbers, which is first, and where in the text.
fn check_numbers(logits: &[f32], position: usize) -> Result<()> {
    let total = logits.len();
    let problem = if let Some(first) = logits.iter().position(|logit| logit.is_nan()) {
        let count = logits.iter().filter(|logit| logit.is_nan()).count();
        format!(
            "at position {position}, {count} of {total} are NaN, the first for token {first}: a weight is NaN, or the \
             numbers left the range of the dtype (try --dtype f32)"
        )
    } else if logits.iter().all(|&logit| logit == f32::NEG_INFINITY) {
        format!("at position {position}, none of {total} tokens is possible (all are −∞)")
    } else {
        return Ok(());
    };
    Err(Error::Logits { problem })
}
