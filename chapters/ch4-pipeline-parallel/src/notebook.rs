//! What the notebook of this chapter begins with: `use ch4_pipeline_parallel::notebook::*;`.

pub use crate::commands::step_on;
pub use crate::picture::{figure, text};
pub use crate::schedule::{Action, Kind, Layout, Schedule};
pub use crate::simulate::{Closed, Interval, Links, Simulation, Uniform, simulate};
pub use crate::stages::{LayerCosts, Stages, balanced_cuts};
pub use crate::step::Step;
pub use lab::loaded::Described;
pub use lab::notebook::*;
pub use lab::variant::largest_difference;

use crate::Result;

/// Prepares the process; a rank is one core.
///
/// # Errors
/// As [`lab::notebook::begin`].
pub fn begin() -> lab::Result<()> {
    lab::notebook::begin(std::num::NonZeroUsize::MIN)
}

/// A schedule by name, two chunks per stage where it has chunks, with forward and both gradients equally long and no time between the stages.
///
/// # Errors
/// The schedule cannot be made for these numbers.
pub fn timed(kind: Kind, stages: usize, micro_batches: usize) -> Result<Simulation> {
    let schedule = kind.schedule(stages, micro_batches, 2)?;
    let times = Uniform::new(1.0, 1.0, 1.0).over(schedule.positions() / stages);
    simulate(&schedule, &times, &Links::Constant(0.0))
}
