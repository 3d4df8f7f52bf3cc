//! How long something takes: repeated, because one run alone also measures whatever else the machine does.
//!
//! The fastest run is what the machine can do, the median what to expect of it now.

use serde::Serialize;
use std::time::{Duration, Instant};

/// More runs add nothing.
const MOST_RUNS: usize = 1000;

/// Durations of the same work, done several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// Seconds of the fastest run.
    pub fastest: f64,
    /// Seconds of the run in the middle.
    pub median: f64,
    /// How many runs were measured.
    pub runs: usize,
}

impl Timing {
    /// Runs `work` once to warm up, then again until `budget` is used up, at least three times. Work whose first run alone takes longer than
    /// `budget` is not run again: the first run is the measurement.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn of<E>(budget: Duration, mut work: impl FnMut() -> Result<(), E>) -> Result<Self, E> {
        let mut once = || {
            let start = Instant::now();
            work().map(|()| start.elapsed().as_secs_f64())
        };
        let first = once()?;
        let budget = budget.as_secs_f64();
        if first > budget {
            return Ok(Self { fastest: first, median: first, runs: 1 });
        }
        let (mut seconds, mut spent) = (Vec::new(), 0.0);
        while seconds.len() < 3 || (spent < budget && seconds.len() < MOST_RUNS) {
            let run = once()?;
            spent += run;
            seconds.push(run);
        }
        seconds.sort_by(f64::total_cmp);
        let at = |index: usize| seconds.get(index).copied().unwrap_or(first);
        Ok(Self { fastest: at(0), median: at(seconds.len() / 2), runs: seconds.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn timing(budget: Duration, work: impl FnMut() -> Result<(), Infallible>) -> Timing {
        let Ok(timing) = Timing::of(budget, work);
        timing
    }

    #[test]
    fn long_work_runs_once_and_short_work_at_least_three_times_after_a_warm_up() {
        let mut runs = 0;
        let mut count = || {
            runs += 1;
            Ok(())
        };
        assert_eq!(timing(Duration::ZERO, &mut count).runs, 1);
        let several = timing(Duration::from_millis(5), &mut count);
        assert!(several.runs >= 3 && several.runs <= MOST_RUNS, "{several:?}");
        assert_eq!(runs, 1 + 1 + several.runs);
        assert!(several.fastest <= several.median, "{several:?}");
    }

    #[test]
    fn the_fastest_run_is_the_fastest_and_errors_end_it() {
        let mut pauses = [9, 6, 2, 6].into_iter();
        let timing = timing(Duration::from_millis(10), || {
            std::thread::sleep(Duration::from_millis(pauses.next().unwrap_or(6)));
            Ok(())
        });
        assert!(timing.fastest >= 2e-3 && timing.median >= 6e-3 && timing.fastest < timing.median, "{timing:?}");
        assert_eq!(Timing::of(Duration::ZERO, || Err("stop")), Err("stop"));
    }
}
