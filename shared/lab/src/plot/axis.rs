//! Axes: a label, a scale, and ticks at round numbers.

use crate::numbers;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// Values beyond it are no measurements, and the arithmetic of a range would overflow.
const LARGEST: f64 = 1e300;

/// Label and scale of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    label: String,
    scale: Scale,
    from_zero: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    /// Equal steps are equal factors; ticks at powers of the base.
    Logarithmic {
        base: u32,
    },
}

impl Axis {
    /// Equal steps are equal differences. The axis begins at 0 unless the values are far from it; the label names the unit:
    /// `context (tokens)`.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, from_zero: true }
    }

    /// Equal steps are factors of 10.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Logarithmic { base: 10 }, from_zero: false }
    }

    /// Equal steps are factors of 2: for context lengths, batch sizes, numbers of ranks.
    pub fn log2(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Logarithmic { base: 2 }, from_zero: false }
    }

    /// A linear axis that shows only the range of the values: for a loss curve.
    #[must_use]
    pub fn zoomed(mut self) -> Self {
        self.from_zero = false;
        self
    }

    /// The horizontal axis of `count` groups of bars, group n from n to n + 1.
    pub(super) fn groups(count: usize) -> Span {
        Span { from: 0.0, to: count as f64, scale: Scale::Linear }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        matches!(self.scale, Scale::Logarithmic { .. })
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Why `value` cannot stand on this axis.
    pub(super) fn refuses(&self, value: f64) -> Option<String> {
        match self.scale {
            _ if !(-LARGEST..=LARGEST).contains(&value) => Some(format!("{value} cannot be drawn")),
            Scale::Logarithmic { .. } if value <= 0.0 => {
                Some(format!("{value} has no place on a logarithmic axis; leave it out or use a linear axis"))
            }
            _ => None,
        }
    }

    /// The axis over `values` (finite, and positive if logarithmic), with some room around them.
    pub(super) fn over(&self, values: impl Iterator<Item = f64>) -> Option<Span> {
        let (low, high) = values.fold(None, |range: Option<(f64, f64)>, value| {
            Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })?;
        let span = |from, to| Span { from, to, scale: self.scale };
        match self.scale {
            Scale::Logarithmic { .. } => {
                let room = if low == high { 2.0 } else { (high / low).powf(0.04) };
                Some(span((low / room).max(f64::MIN_POSITIVE), (high * room).min(f64::MAX)))
            }
            Scale::Linear => {
                let (low, high) = if self.from_zero { (low.min(0.0), high.max(0.0)) } else { (low, high) };
                // Values that differ by rounding only are one value.
                let is_one = high - low <= 1e-9 * low.abs().max(high.abs());
                let size = if is_one { low.abs().max(1.0) } else { high - low };
                // A bar or line that begins at 0 begins at the axis.
                let below = if low == 0.0 { 0.0 } else { 0.05 * size };
                let above = if high == 0.0 && low < 0.0 { 0.0 } else { 0.05 * size };
                Some(span(low - below, high + above))
            }
        }
    }
}

/// A scaled range, as plotters wants it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    from: f64,
    to: f64,
    scale: Scale,
}

impl Span {
    /// Where a value stands, 0 at the beginning and 1 at the end.
    fn position(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic { .. } => {
                (value.max(f64::MIN_POSITIVE).ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
            }
        }
    }

    /// At most `count` round numbers in the range.
    fn ticks(&self, count: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear_ticks(self.from, self.to, count),
            Scale::Logarithmic { base } => logarithmic_ticks(self.from, self.to, f64::from(base), count),
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(from: f64, to: f64, count: usize) -> Vec<f64> {
    let least = (to - from) / count.max(2) as f64;
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= least);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((from / step).ceil(), (to / step).floor());
    // `+ 0.0` turns -0 into 0.
    (0..)
        .map(|index| first + f64::from(index))
        .take_while(|&index| index <= last)
        .map(|index| index * step + 0.0)
        .collect()
}

/// Powers of the base, thinned to `count`; with little more than a decade, 2 and 5 times them too.
fn logarithmic_ticks(from: f64, to: f64, base: f64, count: usize) -> Vec<f64> {
    let (first, last) = (from.log(base).ceil() as i32, to.log(base).floor() as i32);
    let powers = usize::try_from(last - first + 1).unwrap_or(0);
    let factors: &[f64] = match powers {
        _ if base != 10.0 => &[1.0],
        0..=1 => &[1.0, 2.0, 3.0, 5.0, 7.0],
        2..=3 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let stride = powers.div_ceil(count.max(2)).max(1);
    (first - 1..=last)
        .filter(|power| power.rem_euclid(i32::try_from(stride).unwrap_or(1)) == 0)
        .flat_map(|power| factors.iter().map(move |factor| factor * base.powi(power)))
        .filter(|tick| (from..=to).contains(tick))
        .collect()
}

impl Ranged for Span {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let size = f64::from(limit.1 - limit.0);
        // Values outside of the range are not drawn; the clamp keeps the conversion in range.
        limit.0 + (self.position(*value).clamp(-10.0, 10.0) * size).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.bold_points())
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Span {
    fn format_ext(&self, value: &f64) -> String {
        tick_label(*value)
    }
}

/// As short as a tick can be: `0.5`, `1024`, `20000`, `131072` (a power of 2), `1.5M`, `1e-7`.
pub(super) fn tick_label(value: f64) -> String {
    // Digits that the tick's arithmetic left: 0.30000000000000004.
    let trimmed = |value: f64| format!("{value:.6}").trim_end_matches('0').trim_end_matches('.').to_owned();
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 1e-4 => format!("{value:e}").replace(".0e", "e"),
        small if small < 100_000.0 || (small < 1e7 && small.log2().fract() == 0.0) => trimmed(value),
        _ => {
            let text = numbers::count(value).replace(' ', "");
            // `200.0k` is `200k`.
            match text.split_at_checked(text.len() - 1) {
                Some((digits, prefix)) if digits.contains('.') => {
                    format!("{}{prefix}", digits.trim_end_matches('0').trim_end_matches('.'))
                }
                _ => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.over(values.iter().copied()).unwrap().ticks(8).into_iter().map(tick_label).collect()
    }

    #[test]
    fn ticks_are_round_and_inside_of_the_range() {
        assert_eq!(labels(&Axis::linear(""), &[3.0, 97.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::linear(""), &[0.31, 0.02]), ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]);
        assert_eq!(labels(&Axis::linear("").zoomed(), &[9.9, 10.1]), ["9.9", "9.95", "10", "10.05", "10.1"]);
        assert_eq!(
            labels(&Axis::log(""), &[1e-3, 1e3]),
            ["0.001", "0.01", "0.1", "1", "10", "100", "1k"].map(|l| l.replace("1k", "1000"))
        );
        assert_eq!(labels(&Axis::log(""), &[3.0, 40.0]), ["3", "5", "7", "10", "20", "30"]);
        assert_eq!(labels(&Axis::log2(""), &[128.0, 32768.0]), ["256", "1024", "4096", "16384"]);
        assert_eq!(labels(&Axis::linear(""), &[-5.0, 0.0]), ["-5", "-4", "-3", "-2", "-1", "0"]);
        let others = [1.5e6, 2e4, 2e5, 131_072.0, 1e-7, 1e12].map(tick_label);
        assert_eq!(others, ["1.5M", "20000", "200k", "131072", "1e-7", "1T"]);
    }

    #[test]
    fn one_value_and_extreme_values_make_a_range_too() {
        for values in [
            &[0.0][..],
            &[5.0],
            &[-5.0],
            &[1e-300, 1e300],
            &[1e15, 1e15 + 1.0],
            &[1e20, 1e20 + 2e4],
            &[1.0, 1.001],
            &[-1e300, 1e300],
        ] {
            for axis in [Axis::linear(""), Axis::linear("").zoomed(), Axis::log("")] {
                if values.iter().any(|&value| axis.refuses(value).is_some()) {
                    continue;
                }
                let span = axis.over(values.iter().copied()).unwrap();
                assert!(span.from < span.to, "{values:?} on {axis:?}: {span:?}");
                assert!(span.ticks(8).len() <= 12, "{values:?} on {axis:?}");
                let at = |value: &f64| span.map(value, (0, 1000));
                assert!(values.iter().all(|value| (0..=1000).contains(&at(value))), "{values:?} on {axis:?}");
            }
        }
        assert!(Axis::log("").refuses(0.0).is_some() && Axis::linear("").refuses(f64::NAN).is_some());
    }
}
