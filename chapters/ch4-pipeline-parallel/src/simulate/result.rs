//! What a simulation says.

use crate::schedule::{Action, Peaks, Schedule};
use serde_json::{Value, json};

/// When an action runs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// What.
    pub action: Action,
    /// From.
    pub start: f64,
    /// To.
    pub end: f64,
}

/// A timed schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Per stage, in order.
    pub stages: Vec<Vec<Interval>>,
    /// What the stages hold.
    pub peaks: Peaks,
    /// Bytes that each stage sends.
    pub sent: Vec<u64>,
}

impl Simulation {
    /// From the times of a valid schedule.
    pub(super) fn new(schedule: &Schedule, stages: Vec<Vec<Interval>>, sent: Vec<u64>) -> Self {
        let held = schedule.peak(|kept, waiting| kept + waiting);
        Self { stages, peaks: Peaks { in_flight: schedule.peak(|kept, _| kept), held }, sent }
    }

    /// From the start of the first action to the end of the last, over all stages.
    pub fn makespan(&self) -> f64 {
        self.stages.iter().flatten().map(|interval| interval.end).fold(0.0, f64::max)
    }

    /// The longest that a stage is busy or waits between its first action and its last. Stages that start later and end earlier
    /// than others can begin the next step meanwhile, so this, not the makespan, is what a step costs (Qi et al., 2023).
    pub fn cost(&self) -> f64 {
        let span = |list: &Vec<Interval>| Some(list.last()?.end - list.first()?.start);
        self.stages.iter().filter_map(span).fold(0.0, f64::max)
    }

    /// Seconds that each stage computes.
    pub fn busy(&self) -> Vec<f64> {
        let busy = |list: &Vec<Interval>| {
            let mut sum = 0.0;
            let mut end = f64::NEG_INFINITY;
            for interval in list {
                // Two that run together have one interval.
                if interval.end > end {
                    sum += interval.end - interval.start;
                    end = interval.end;
                }
            }
            sum
        };
        self.stages.iter().map(busy).collect()
    }

    /// The share of the [cost](Self::cost) that a stage waits, as a mean over the stages.
    pub fn bubble(&self) -> f64 {
        let (cost, stages) = (self.cost(), self.stages.len() as f64);
        if cost > 0.0 { 1.0 - self.busy().iter().sum::<f64>() / stages / cost } else { 0.0 }
    }

    /// The document of `simulate`.
    pub fn to_json(&self) -> Value {
        json!({
            "makespan": self.makespan(),
            "cost": self.cost(),
            "bubble": self.bubble(),
            "peak_in_flight": self.peaks.in_flight,
            "peak_held": self.peaks.held,
        })
    }
}
