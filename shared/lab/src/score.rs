//! How well a model predicts some sequences: what every chapter's `score` computes and prints.

use crate::batch::Batch;
use crate::{Result, Table, numbers};
use candle_core::{DType, Tensor};
use decoder::tokenizer::Tokenizer;
use decoder::{Context, Decoder};
use serde::Serialize;
use std::io::{self, Write};
use std::ops::Range;

/// The document of `score`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Mean of −log p over the predicted tokens, in nats.
    pub loss: f64,
    /// Predicted tokens.
    pub count: usize,
    /// Sequence by sequence.
    pub sequences: Vec<SequenceScore>,
}

/// One sequence's part of a [`Score`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SequenceScore {
    /// Its tokens.
    pub ids: Vec<u32>,
    /// log p of every token but the first, given those before it, in nats.
    pub logprobs: Vec<f64>,
    /// Per token: which token is the most likely to follow it; the lower id of equal ones.
    pub argmax: Vec<u32>,
    /// The best five that may follow the last token, with their logits, best first.
    pub top: Vec<(u32, f64)>,
}

impl Score {
    /// Of sequences that were scored one by one. Without a predicted token the loss is NaN.
    pub fn of(sequences: Vec<SequenceScore>) -> Self {
        let logprobs = sequences.iter().flat_map(|sequence| &sequence.logprobs);
        let (count, sum) = logprobs.fold((0, 0.0), |(count, sum), logprob| (count + 1, sum + logprob));
        Self { loss: -sum / count as f64, count, sequences }
    }

    /// Token by token what was expected, what came, and how likely that was. A model without a tokenizer is shown by ids.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, out: &mut impl Write, tokenizer: Option<&Tokenizer>) -> io::Result<()> {
        let text = |id: u32| match tokenizer {
            Some(tokenizer) => format!("{id} {:?}", tokenizer.decode(&[id], false).unwrap_or_default()),
            None => id.to_string(),
        };
        for (index, sequence) in self.sequences.iter().enumerate() {
            let mut table = Table::new(["token", "log p", "p", "the most likely one"]);
            for ((&next, logprob), &best) in sequence.ids[1..].iter().zip(&sequence.logprobs).zip(&sequence.argmax) {
                table.push([text(next), format!("{logprob:.4}"), numbers::plain(logprob.exp()), text(best)]);
            }
            writeln!(out, "sequence {index}, after {}\n{table}\n", text(sequence.ids[0]))?;
            let top: Vec<_> = sequence.top.iter().map(|&(id, logit)| format!("{} ({logit:.4})", text(id))).collect();
            writeln!(out, "next, by logit: {}\n", top.join(", "))?;
        }
        writeln!(out, "loss: {:.6} nats per token, mean of {} tokens", self.loss, self.count)
    }
}

/// Positions whose logits exist at a time.
const BLOCK: usize = 128;
/// How many of the best logits are shown.
const TOP: usize = 5;

/// Scores `batch` on a model that is whole as far as `ctx` can tell: its split may cut layers and vocabulary.
///
/// # Errors
/// The forward failed, or logits are not numbers.
pub fn score(model: &Decoder, ctx: &Context, batch: &Batch) -> Result<Score> {
    let hidden = model.hidden(ctx, &batch.tokens(model.device())?, None)?;
    score_with(batch, |row, positions| {
        let x = hidden.get(row)?.narrow(0, positions.start, positions.len())?;
        Ok(model.head_logits(ctx, &x)?)
    })
}

/// Scores `batch` with logits from anywhere: `logits(row, positions)` gives those of some tokens of a sequence, `[positions, vocab]`.
///
/// # Errors
/// Those of `logits`; logits that are not numbers.
pub fn score_with(batch: &Batch, logits: impl Fn(usize, Range<usize>) -> Result<Tensor>) -> Result<Score> {
    let sequences = batch.sequences().iter().enumerate();
    let sequences: Vec<SequenceScore> =
        sequences.map(|(row, ids)| sequence(ids, |positions| logits(row, positions))).collect::<Result<_>>()?;
    Ok(Score::of(sequences))
}

fn sequence(ids: &[u32], logits: impl Fn(Range<usize>) -> Result<Tensor>) -> Result<SequenceScore> {
    let (mut logprobs, mut argmax, mut top) = (Vec::new(), Vec::new(), Vec::new());
    for start in (0..ids.len()).step_by(BLOCK) {
        let block = logits(start..ids.len().min(start + BLOCK))?.to_dtype(DType::F64)?.to_vec2::<f64>()?;
        for (position, row) in (start..).zip(&block) {
            let best = best(row, position)?;
            argmax.push(best as u32);
            match ids.get(position + 1) {
                Some(&next) => logprobs.push(row[next as usize] - log_sum_exp(row, row[best])),
                None => top = largest(row),
            }
        }
    }
    Ok(SequenceScore { ids: ids.to_vec(), logprobs, argmax, top })
}

/// Index of the largest logit, the lower one of equals.
fn best(row: &[f64], position: usize) -> Result<usize> {
    if let Some(id) = row.iter().position(|logit| !logit.is_finite()) {
        let problem = format!("after token {position} (from 0), that of id {id} is {}", row[id]);
        return Err(decoder::Error::Logits { problem }.into());
    }
    Ok(row.iter().enumerate().fold(0, |best, (id, logit)| if *logit > row[best] { id } else { best }))
}

fn log_sum_exp(row: &[f64], largest: f64) -> f64 {
    largest + row.iter().map(|logit| (logit - largest).exp()).sum::<f64>().ln()
}

fn largest(row: &[f64]) -> Vec<(u32, f64)> {
    let mut ranked: Vec<(u32, f64)> = (0..).zip(row.iter().copied()).collect();
    ranked.sort_by(|(left_id, left), (right_id, right)| right.total_cmp(left).then(left_id.cmp(right_id)));
    ranked.truncate(TOP);
    ranked
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use candle_core::Device;

    #[test]
    fn of_equal_logits_the_lower_id_is_first() {
        let row = [1., 3., 3., -1., 3., 0.];
        assert_eq!(best(&row, 0).unwrap(), 1);
        assert_eq!(largest(&row), [(1, 3.), (2, 3.), (4, 3.), (0, 1.), (5, 0.)]);
    }

    #[test]
    fn large_logits_do_not_overflow_and_a_sequence_goes_on_across_blocks() {
        // Even tokens are followed by odd ones with certainty, odd ones by any of the four.
        let ids: Vec<u32> = (0..2 * BLOCK as u32 + 1).map(|token| token % 2).collect();
        let logits = |positions: Range<usize>| {
            let rows = positions.clone().flat_map(|p| if p % 2 == 0 { [0., 1e4, 0., 0.] } else { [7.; 4] });
            Ok(Tensor::from_iter(rows, &Device::Cpu)?.reshape((positions.len(), 4))?)
        };
        let scored = sequence(&ids, logits).unwrap();
        assert_eq!(scored.logprobs.len(), 2 * BLOCK);
        for (position, logprob) in scored.logprobs.iter().enumerate() {
            let expected = if position % 2 == 0 { 0. } else { 0.25f64.ln() };
            assert!((logprob - expected).abs() < 1e-12, "position {position}: {logprob}");
        }
        assert_eq!(scored.argmax.len(), ids.len());
        assert_eq!(&scored.argmax[..3], [1, 0, 1]);
    }

    #[test]
    fn logits_that_are_not_numbers_are_named() {
        let message = best(&[0., f64::NAN], 3).unwrap_err().to_string();
        assert!(message.contains("token 3") && message.contains("id 1") && message.contains("NaN"), "{message}");
    }
}
