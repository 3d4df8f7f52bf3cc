//! Variants side by side: as a table, and as a document.

use super::{Outcome, RankOutcome, Text, Work};
use crate::table::NOT_MEASURED;
use crate::{Table, numbers};
use candle_core::{DType, Tensor};
use ledger::Bytes;
use serde::Serialize;
use training::Named;

/// One variant beside the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub variant: String,
    /// Ranks.
    pub ranks: usize,
    /// Whether it generated the same tokens.
    pub text: Text,
    /// Mean loss, in nats.
    pub loss: f64,
    /// Largest difference of a parameter's gradient, relative to the first's norm.
    pub gradient_difference: f64,
    /// Bytes of the fullest rank, by formula.
    pub memory_predicted: u64,
    /// The same kinds of memory, measured.
    pub memory_measured: Option<u64>,
    /// Bytes that the rank which sends most sends, by formula.
    pub sent_predicted: u64,
    /// The same, counted.
    pub sent_counted: u64,
    /// Collective operations of the rank that has most.
    pub calls: u64,
    /// Whether prediction and count agree to the byte on every rank.
    pub traffic_as_predicted: bool,
    /// Of the step, by the clock of the slowest rank.
    pub seconds: f64,
    /// Tokens of the batch over these seconds.
    pub tokens_per_second: f64,
    /// Share of the step spent waiting in a pipeline.
    pub bubble: Option<f64>,
}

/// All variants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Tokens of the batch.
    pub tokens: usize,
    /// Type of the weights.
    pub dtype: String,
    /// The first is what the others are compared with.
    pub variants: Vec<Row>,
}

impl Report {
    pub(super) fn new(work: &Work) -> Self {
        let dtype = work.described.dtype.as_str().to_owned();
        Self { tokens: work.batch.rows * work.batch.seq, dtype, variants: Vec::new() }
    }

    pub(super) fn push(
        &mut self,
        variant: String,
        work: &Work,
        outcome: &Outcome,
        first: &Outcome,
    ) -> anyhow::Result<()> {
        let ranks = &outcome.ranks;
        let most = |figure: &dyn Fn(&RankOutcome) -> u64| ranks.iter().map(figure).max().unwrap_or(0);
        let seconds = ranks.iter().map(|rank| rank.seconds).fold(0.0, f64::max);
        self.variants.push(Row {
            variant,
            ranks: ranks.len(),
            text: Text::compare(work, &outcome.tokens, &first.tokens)?,
            loss: outcome.loss.mean(),
            gradient_difference: largest_difference(&outcome.gradients, &first.gradients)?,
            memory_predicted: most(&|rank| rank.predicted.iter().map(|(_, bytes)| bytes).sum()),
            memory_measured: ranks.iter().map(measured).max().flatten(),
            sent_predicted: most(&|rank| rank.predicted_sent),
            sent_counted: most(&|rank| rank.traffic.sent().total()),
            calls: most(&|rank| rank.traffic.calls()),
            traffic_as_predicted: ranks.iter().all(|rank| rank.predicted_sent == rank.traffic.sent().total()),
            seconds,
            tokens_per_second: self.tokens as f64 / seconds,
            bubble: outcome.bubble,
        });
        Ok(())
    }

    /// As a table.
    pub fn table(&self) -> Table {
        let header = [
            "variant",
            "ranks",
            "text",
            "gradients differ by",
            "memory: predicted",
            "measured",
            "sent: predicted",
            "counted",
            "calls",
            "step",
            "tokens/s",
            "bubble",
        ];
        self.variants.iter().fold(Table::new(header), |table, row| table.row(row.cells()))
    }

    /// Whether every variant did what the first did: the same text, gradients within `tolerance`, and traffic to the byte.
    pub fn all_equal(&self, tolerance: f64) -> bool {
        self.variants
            .iter()
            .all(|row| row.text.is_right() && row.gradient_difference <= tolerance && row.traffic_as_predicted)
    }
}

impl Row {
    fn cells(&self) -> [String; 12] {
        let bytes = |bytes: u64| Bytes(bytes).to_string();
        [
            self.variant.clone(),
            self.ranks.to_string(),
            self.text.to_string(),
            format!("{:.1e}", self.gradient_difference),
            bytes(self.memory_predicted),
            self.memory_measured.map_or_else(|| NOT_MEASURED.to_owned(), bytes),
            bytes(self.sent_predicted),
            format!("{} {}", bytes(self.sent_counted), if self.traffic_as_predicted { "✓" } else { "✗" }),
            self.calls.to_string(),
            numbers::seconds(self.seconds),
            numbers::count(self.tokens_per_second),
            self.bubble.map_or_else(|| "-".to_owned(), numbers::percent),
        ]
    }
}

/// The measured bytes of the kinds that were predicted, each at its own peak.
fn measured(rank: &RankOutcome) -> Option<u64> {
    let memory = rank.memory.as_ref()?;
    Some(rank.predicted.iter().map(|(kind, _)| memory.of(*kind).peak).sum())
}

/// The largest, over the parameters, of ‖a − b‖ / ‖b‖. A parameter that only one of them has counts as wholly different.
///
/// # Errors
/// Two gradients of one name have different shapes.
pub fn largest_difference(found: &Named, expected: &Named) -> anyhow::Result<f64> {
    if found.len() != expected.len() {
        return Ok(f64::INFINITY);
    }
    let norm =
        |tensor: &Tensor| -> candle_core::Result<f64> { Ok(tensor.sqr()?.sum_all()?.to_scalar::<f64>()?.sqrt()) };
    let mut largest = 0.0;
    for (name, expected) in expected {
        let Some(found) = found.get(name) else { return Ok(f64::INFINITY) };
        let (found, expected) = (found.to_dtype(DType::F64)?, expected.to_dtype(DType::F64)?);
        let (difference, size) = (norm(&(found - &expected)?)?, norm(&expected)?);
        let relative = if difference == 0.0 { 0.0 } else { difference / size };
        // Not `max`, which passes over NaN.
        if relative.is_nan() || relative > largest {
            largest = relative;
        }
    }
    Ok(largest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use candle_core::Device;

    fn named(values: &[(&str, [f64; 2])]) -> Named {
        values.iter().map(|(name, values)| ((*name).into(), Tensor::new(values, &Device::Cpu).unwrap())).collect()
    }

    #[test]
    fn the_difference_is_that_of_the_worst_parameter_and_nothing_hides_one() {
        let expected = named(&[("a", [3.0, 4.0]), ("b", [1.0, 0.0]), ("zero", [0.0, 0.0])]);
        let difference = |found: &Named| largest_difference(found, &expected).unwrap();
        assert_eq!(difference(&expected), 0.0);
        assert_eq!(difference(&named(&[("a", [3.0, 4.5]), ("b", [1.0, 0.2]), ("zero", [0.0, 0.0])])), 0.2);
        assert_eq!(difference(&named(&[("a", [3.0, 4.0]), ("b", [1.0, 0.0]), ("zero", [0.0, 1e-100])])), f64::INFINITY);
        assert_eq!(difference(&named(&[("a", [3.0, 4.0]), ("b", [1.0, 0.0])])), f64::INFINITY, "one is missing");
        assert_eq!(difference(&named(&[("a", [3.0, 4.0]), ("b", [1.0, 0.0]), ("c", [0.0, 0.0])])), f64::INFINITY);
        let nan = difference(&named(&[("a", [f64::NAN, 4.0]), ("b", [2.0, 0.0]), ("zero", [0.0, 0.0])]));
        assert!(nan.is_nan(), "{nan}");
    }
}
