//! Is it a schedule at all, and what does it hold?

use super::{Schedule, Work, walk};
use crate::Result;

/// Most that a stage holds at once, counted in (micro-batch, chunk) pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peaks {
    /// Forwards whose input gradient is not done: all their activations are kept (M_B in Qi et al., 2023).
    pub in_flight: Vec<usize>,
    /// Those, and the ones whose weight gradient is not done: of these only what it needs is kept (M_W).
    pub held: Vec<usize>,
}

impl Schedule {
    /// Proves that every action is there once, that each finds what it needs, that no stages wait for each other in a circle;
    /// returns what the stages hold.
    ///
    /// # Errors
    /// [`Error::Schedule`](crate::Error::Schedule) names the action, or who waits for what.
    pub fn check(&self) -> Result<Peaks> {
        walk(self, |_| ())?;
        Ok(Peaks { in_flight: self.peak(|kept, _| kept), held: self.peak(|kept, waiting| kept + waiting) })
    }

    /// Per stage, the largest of `cost(in flight, awaiting their weight gradient)`.
    pub fn peak<T: PartialOrd + Default>(&self, cost: impl Fn(usize, usize) -> T) -> Vec<T> {
        let of_stage = |list: &Vec<super::Action>| {
            let (mut in_flight, mut waiting, mut most) = (0usize, 0usize, T::default());
            for action in list {
                match action.work {
                    Work::Forward => in_flight += 1,
                    Work::Backward => in_flight = in_flight.saturating_sub(1),
                    Work::InputGradient => (in_flight, waiting) = (in_flight.saturating_sub(1), waiting + 1),
                    Work::WeightGradient => waiting = waiting.saturating_sub(1),
                }
                let now = cost(in_flight, waiting);
                if now > most {
                    most = now;
                }
            }
            most
        };
        self.stages.iter().map(of_stage).collect()
    }
}
