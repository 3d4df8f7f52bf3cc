//! Which message passes when: an order in which nobody waits in a circle.
//!
//! A send is a rendezvous, and the communication of a rank runs in the order of its issue. So two neighbours that want to send to
//! each other at the same time would wait forever. Here every message of a step gets a place in one order, that of the simulated
//! times at which it is made, and every rank issues its sends and receives in that order. Of the messages that have not passed, the
//! first can always pass: its sender needs only earlier ones, and its receiver has nothing before it.

use crate::Result;
use crate::schedule::{Schedule, Work};
use crate::simulate::{Links, Uniform, simulate};

/// What is sent: activations to the chunk at `position`, or the gradient of what it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// A gradient, not activations.
    pub gradient: bool,
    /// Of this micro-batch.
    pub micro_batch: usize,
    /// To the chunk at this position.
    pub position: usize,
}

/// One rank's end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// It leaves, to a stage.
    Send(Message, usize),
    /// It comes, from a stage.
    Receive(Message, usize),
}

/// Per stage, its ends of all messages, in the one order.
pub(super) fn in_order(schedule: &Schedule) -> Result<Vec<Vec<Endpoint>>> {
    // Any positive times give an order; these are near those of real models, so that little waits for its turn.
    let times = Uniform::new(1.0, 1.0, 1.0).over(schedule.layout.chunks());
    let simulation = simulate(schedule, &times, &Links::Constant(0.0))?;
    let stages = schedule.stages.len();
    let mut all = Vec::new();
    for (stage, intervals) in simulation.stages.iter().enumerate() {
        for interval in intervals {
            let action = interval.action;
            let here = schedule.layout.position(stages, stage, action.chunk);
            let (gradient, position) = match action.work {
                Work::Forward if here + 1 < schedule.positions() => (false, here + 1),
                Work::Backward | Work::InputGradient if here > 0 => (true, here - 1),
                _ => continue,
            };
            let (to, _) = schedule.layout.at(stages, position, action.chunk);
            if to != stage {
                all.push((interval.end, stage, to, Message { gradient, micro_batch: action.micro_batch, position }));
            }
        }
    }
    // Stable, so that what a stage makes at one time stays in its order.
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut ends = vec![Vec::new(); stages];
    for (_, from, to, message) in all {
        ends[from].push(Endpoint::Send(message, to));
        ends[to].push(Endpoint::Receive(message, from));
    }
    Ok(ends)
}
