//! Predicted beside measured: every claim of the workspace ends here.
//!
//! A number that is counted (parameters, bytes, FLOPs) must be **equal** to its formula; one that a clock or a rounding took
//! part in must be within a stated tolerance. What was not measured is said to be, and never counts as confirmed.

use crate::numbers;
use crate::table::{NOT_MEASURED, Table};
use ledger::Bytes;
use serde::Serialize;
use std::fmt;

/// What a number counts, which decides how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unit {
    /// Things: parameters, calls, tokens.
    Count,
    /// Bytes.
    Bytes,
    /// Floating-point operations.
    Flops,
    /// Seconds.
    Seconds,
    /// Floating-point operations per second.
    FlopsPerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Tokens per second.
    TokensPerSecond,
    /// A plain number: a loss, a ratio.
    Number,
}

impl Unit {
    /// The number, rounded, with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Count => numbers::count(value),
            Self::Bytes if (0.0..1.8e19).contains(&value) => Bytes(value as u64).to_string(),
            Self::Bytes => format!("{} B", numbers::plain(value)),
            Self::Flops => numbers::flops(value),
            Self::Seconds => numbers::seconds(value),
            Self::FlopsPerSecond => numbers::flop_rate(value),
            Self::BytesPerSecond => numbers::bandwidth(value),
            Self::TokensPerSecond => numbers::rate(value, "tokens"),
            Self::Number => numbers::plain(value),
        }
    }

    /// The number with every digit.
    fn exact_text(self, value: u64) -> String {
        let digits = numbers::grouped(value);
        match self {
            Self::Bytes => format!("{digits} B"),
            Self::Flops => format!("{digits} FLOP"),
            Self::Seconds => format!("{digits} s"),
            _ => digits,
        }
    }
}

/// The two numbers, and how near they must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Values {
    Exact { predicted: u64, measured: Option<u64> },
    Within { predicted: f64, measured: Option<f64>, tolerance: f64 },
}

/// One predicted number beside the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    what: String,
    #[serde(flatten)]
    values: Values,
    unit: Unit,
}

impl Compared {
    /// Integers that must be equal. `measured` is `None` where nothing was measured.
    pub fn exact(what: impl Into<String>, predicted: u64, measured: Option<u64>, unit: Unit) -> Self {
        Self { what: what.into(), values: Values::Exact { predicted, measured }, unit }
    }

    /// Numbers that may differ by `tolerance · |predicted|`.
    pub fn within(what: impl Into<String>, predicted: f64, measured: Option<f64>, tolerance: f64, unit: Unit) -> Self {
        Self { what: what.into(), values: Values::Within { predicted, measured, tolerance }, unit }
    }

    /// Whether the prediction holds; `None` if nothing was measured. Not-a-number never holds.
    pub fn holds(&self) -> Option<bool> {
        match self.values {
            Values::Exact { predicted, measured } => measured.map(|measured| measured == predicted),
            Values::Within { predicted, measured, tolerance } => {
                measured.map(|measured| (measured - predicted).abs() <= tolerance * predicted.abs())
            }
        }
    }

    /// Measured over predicted.
    pub fn ratio(&self) -> Option<f64> {
        let (predicted, measured) = match self.values {
            Values::Exact { predicted, measured } => (predicted as f64, measured? as f64),
            Values::Within { predicted, measured, .. } => (predicted, measured?),
        };
        (predicted != 0.0).then_some(measured / predicted)
    }

    fn cells(&self) -> [String; 5] {
        let not_measured = || NOT_MEASURED.to_owned();
        let (predicted, measured, condition) = match self.values {
            Values::Exact { predicted, measured } => {
                let text = |value| self.unit.exact_text(value);
                (text(predicted), measured.map_or_else(not_measured, text), "equal".to_owned())
            }
            Values::Within { predicted, measured, tolerance } => {
                let text = |value| self.unit.text(value);
                (text(predicted), measured.map_or_else(not_measured, text), tolerance_text(tolerance))
            }
        };
        let ratio = self.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.4}"));
        let mark = match self.holds() {
            Some(true) => format!("✓ {condition}"),
            Some(false) => format!("✗ not {condition}"),
            None => "?".to_owned(),
        };
        [self.what.clone(), predicted, measured, ratio, mark]
    }
}

/// `within 2.0 %`, or `within 1e-9` where percent would round to nothing.
fn tolerance_text(tolerance: f64) -> String {
    if tolerance == 0.0 || tolerance >= 0.0005 {
        format!("within {}", numbers::percent(tolerance))
    } else {
        format!("within {tolerance:.0e}")
    }
}

/// Several comparisons, shown as one table. Serialises as a list, for `--json`.
///
/// ```
/// use lab::{Compared, Comparison, compared::Unit};
/// let comparison = Comparison::default()
///     .with(Compared::exact("parameters", 3 * 4, Some(12), Unit::Count))
///     .with(Compared::within("step", 0.020, Some(0.022), 0.15, Unit::Seconds));
/// assert!(comparison.all_hold());
/// println!("{comparison}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Comparison {
    rows: Vec<Compared>,
}

impl Comparison {
    /// With one more row.
    #[must_use]
    pub fn with(mut self, row: Compared) -> Self {
        self.rows.push(row);
        self
    }

    /// Adds a row.
    pub fn push(&mut self, row: Compared) {
        self.rows.push(row);
    }

    /// The rows.
    pub fn rows(&self) -> &[Compared] {
        &self.rows
    }

    /// Whether every prediction that was measured holds. What was not measured does not count against it;
    /// [`Comparison::all_measured`] tells whether there is any.
    pub fn all_hold(&self) -> bool {
        self.rows.iter().all(|row| row.holds() != Some(false))
    }

    /// Whether every row was measured.
    pub fn all_measured(&self) -> bool {
        self.rows.iter().all(|row| row.holds().is_some())
    }

    /// As a table.
    pub fn table(&self) -> Table {
        let header = ["quantity", "predicted", "measured", "measured / predicted", "holds"];
        self.rows.iter().fold(Table::new(header), |table, row| table.row(row.cells()))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn integers_must_be_equal_to_the_last_digit_also_beyond_f64() {
        let large = (1u64 << 53) + 1;
        assert_eq!(Compared::exact("n", large, Some(large), Unit::Count).holds(), Some(true));
        assert_eq!(Compared::exact("n", large, Some(large - 1), Unit::Count).holds(), Some(false));
        assert_eq!(Compared::exact("n", large, None, Unit::Count).holds(), None);
    }

    #[test]
    fn a_tolerance_is_relative_and_nothing_holds_for_not_a_number() {
        let within = |predicted, measured| Compared::within("t", predicted, Some(measured), 0.1, Unit::Seconds).holds();
        assert_eq!(within(2.0, 2.19), Some(true));
        assert_eq!(within(2.0, 1.79), Some(false));
        assert_eq!(within(-2.0, -2.1), Some(true));
        assert_eq!(within(0.0, 1e-12), Some(false));
        assert_eq!(within(f64::NAN, 1.0), Some(false));
        assert_eq!(within(1.0, f64::NAN), Some(false));
    }

    #[test]
    fn the_table_says_what_holds_what_does_not_and_what_was_not_measured() {
        let comparison = Comparison::default()
            .with(Compared::exact("weights", 538_060_800, Some(538_060_800), Unit::Bytes))
            .with(Compared::exact("calls", 0, Some(2), Unit::Count))
            .with(Compared::within("step", 0.02, None, 0.1, Unit::Seconds));
        assert!(!comparison.all_hold() && !comparison.all_measured());
        let text = comparison.to_string();
        for part in ["538,060,800 B", "1.0000", "✓ equal", "✗ not equal", "20.0 ms", NOT_MEASURED, "?"] {
            assert!(text.contains(part), "{part} is missing\n{text}");
        }
        let json = serde_json::to_value(&comparison).unwrap();
        assert_eq!(json[0]["predicted"], 538_060_800);
        assert_eq!(json[0]["unit"], "bytes");
        assert!(json[2]["measured"].is_null());
    }
}
