//! A schedule, run on tensors: one rank per stage.
//!
//! Each rank goes through its stage's list. A forward takes the activations that came in, runs the chunk's segments and keeps their
//! graphs; a backward runs them in reverse; a weight gradient that was put off is computed when its turn comes. What is sent to whom
//! follows from the schedule, in an order in which no two ranks wait for each other (`messages`). Losses are divided by the
//! count of the whole batch before the backward, so that the gradients of the micro-batches simply add up.
//!
//! Read [`Stage::step`]: it is the whole engine.

mod deferred;
mod mail;
mod messages;
mod micro_batch;
mod profile;
mod shared;
mod stage;

pub use messages::{Endpoint, Message};
pub use micro_batch::MicroBatch;
pub use profile::{Profile, profile};
pub use stage::{Outcome, Stage};

use crate::schedule::{Layout, Peaks, Schedule};
use crate::stages::Stages;
use crate::{Error, Result};

/// A schedule and a model cut to fit it.
#[derive(Clone, Debug)]
pub struct Pipeline {
    schedule: Schedule,
    stages: Stages,
    peaks: Peaks,
    messages: Vec<Vec<Endpoint>>,
    loss_scale: fn(usize, usize, usize) -> f64,
}

/// What the summed loss of a micro-batch with `own` of the batch's `batch` targets is multiplied by before its backward, so that the
/// gradients of all micro-batches add up to that of the mean over the batch: 1 / `batch`, however many micro-batches there are and however
/// unequal they are.
pub fn loss_scale(_own: usize, batch: usize, _micro_batches: usize) -> f64 {
    1.0 / batch as f64
}

impl Pipeline {
    /// Checks that the two fit together.
    ///
    /// # Errors
    /// The schedule is not valid, is of other stages or of another layout, or needs two copies of the model.
    pub fn new(schedule: Schedule, stages: Stages) -> Result<Self> {
        if schedule.layout == Layout::Bidirectional {
            let expected = "one of the other schedules: DualPipe needs the model twice, and is timed only".to_owned();
            return Err(Error::Setting { name: "schedule", found: "dualpipe".to_owned(), expected });
        }
        let found = (schedule.stages.len(), schedule.layout);
        if found != (stages.len(), stages.layout()) {
            return Err(Error::Setting {
                name: "schedule",
                found: format!("{} stages, {:?}", found.0, found.1),
                expected: format!("{} stages, {:?}, as the model is cut", stages.len(), stages.layout()),
            });
        }
        let peaks = schedule.check()?;
        let messages = messages::in_order(&schedule)?;
        Ok(Self { schedule, stages, peaks, messages, loss_scale })
    }

    /// The same with another [`loss_scale`].
    #[must_use]
    pub fn with_loss_scale(self, loss_scale: fn(usize, usize, usize) -> f64) -> Self {
        Self { loss_scale, ..self }
    }

    /// The order.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The cut.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// What each stage will hold.
    pub fn peaks(&self) -> &Peaks {
        &self.peaks
    }

    /// Bytes that stage `stage` sends to others, `bytes(i)` for each message of micro-batch i.
    pub fn sent(&self, stage: usize, bytes: impl Fn(usize) -> u64) -> u64 {
        let sends = self.messages[stage].iter().filter_map(|end| match end {
            Endpoint::Send(message, _) => Some(bytes(message.micro_batch)),
            Endpoint::Receive(..) => None,
        });
        sends.sum()
    }

    /// What each stage sends and receives, in order.
    pub fn messages(&self) -> &[Vec<Endpoint>] {
        &self.messages
    }
}
