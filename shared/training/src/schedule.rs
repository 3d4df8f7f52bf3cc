//! The learning rate as a pure function of the step: a resumed run needs no state for it.

use crate::{Error, Result};
use serde::Serialize;

/// How the learning rate changes over the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Schedule {
    peak: f64,
    warm_up: u64,
    decay: Option<Cosine>,
}

/// Half a cosine from the peak down to a floor (Loshchilov & Hutter, SGDR, without restarts).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Cosine {
    floor: f64,
    steps: u64,
}

impl Schedule {
    /// The same learning rate at every step.
    ///
    /// # Errors
    /// `learning_rate` is not a positive finite number.
    pub fn constant(learning_rate: f64) -> Result<Self> {
        check_learning_rate(learning_rate)?;
        Ok(Self { peak: learning_rate, warm_up: 0, decay: None })
    }

    /// The same, after a linear warm-up over `steps` steps.
    #[must_use]
    pub fn with_warm_up(self, steps: u64) -> Self {
        Self { warm_up: steps, ..self }
    }

    /// Linear warm-up over `warm_up` steps to `peak`, then half a cosine that reaches `floor` at step `steps`, and stays there.
    ///
    /// Step 0 has `peak / warm_up`, not 0: a step that changes nothing would be wasted.
    ///
    /// # Errors
    /// `peak` is not positive and finite, `floor` is not in 0 to `peak`, or the warm-up does not end before `steps`.
    pub fn cosine(peak: f64, floor: f64, warm_up: u64, steps: u64) -> Result<Self> {
        check_learning_rate(peak)?;
        if !(0.0..=peak).contains(&floor) {
            return Err(Error::setting("learning-rate floor", floor, format!("between 0 and the peak, {peak}")));
        }
        if warm_up >= steps {
            return Err(Error::setting("warm-up steps", warm_up, format!("fewer than the {steps} steps of the run")));
        }
        Ok(Self { peak, warm_up, decay: Some(Cosine { floor, steps }) })
    }

    /// Learning rate of `step`, counted from 0.
    pub fn learning_rate(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return self.peak * (step + 1) as f64 / self.warm_up as f64;
        }
        let Some(Cosine { floor, steps }) = self.decay else { return self.peak };
        let progress = ((step - self.warm_up) as f64 / (steps - self.warm_up) as f64).min(1.0);
        floor + 0.5 * (self.peak - floor) * (1.0 + (std::f64::consts::PI * progress).cos())
    }
}

/// A learning rate that a step may be taken with.
pub(crate) fn check_learning_rate(learning_rate: f64) -> Result<()> {
    if learning_rate.is_finite() && learning_rate > 0.0 {
        return Ok(());
    }
    Err(Error::setting("learning rate", learning_rate, "a positive finite number, such as 0.001"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn warm_up_rises_to_the_peak_and_the_cosine_falls_to_the_floor() {
        let schedule = Schedule::cosine(1e-3, 1e-4, 10, 110).unwrap();
        for step in 0..10 {
            assert!((schedule.learning_rate(step) - 1e-4 * (step + 1) as f64).abs() < 1e-18, "step {step}");
        }
        assert_eq!(schedule.learning_rate(10), 1e-3);
        assert!((schedule.learning_rate(60) - 5.5e-4).abs() < 1e-15, "half way is the mean of peak and floor");
        for step in 10..110 {
            assert!(schedule.learning_rate(step + 1) < schedule.learning_rate(step), "falls at step {step}");
        }
        assert_eq!(schedule.learning_rate(110), 1e-4);
        assert_eq!(schedule.learning_rate(u64::MAX), 1e-4);
    }

    #[test]
    fn every_step_of_the_run_has_a_positive_rate_even_with_floor_0() {
        let schedule = Schedule::cosine(1e-3, 0.0, 3, 1000).unwrap();
        for step in 0..1000 {
            assert!(schedule.learning_rate(step) > 0.0, "step {step}");
        }
    }

    #[test]
    fn useless_settings_are_refused() {
        for rate in [0.0, -1e-3, f64::NAN, f64::INFINITY] {
            assert!(Schedule::constant(rate).is_err(), "{rate}");
            assert!(Schedule::cosine(rate, 0.0, 1, 10).is_err(), "{rate}");
        }
        assert!(Schedule::cosine(1e-3, 2e-3, 1, 10).is_err(), "floor above the peak");
        assert!(Schedule::cosine(1e-3, f64::NAN, 1, 10).is_err(), "floor NaN");
        assert!(Schedule::cosine(1e-3, 0.0, 10, 10).is_err(), "nothing but warm-up");
    }
}
