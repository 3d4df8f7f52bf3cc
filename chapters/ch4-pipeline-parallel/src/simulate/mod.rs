//! When everything happens: a schedule, what each action takes, and the links between the stages.
//!
//! The rules are those of a run on the roofline clock ([`engine`](crate::engine)), and of Qi et al.'s Table 5: a stage works through its
//! list in order; an action starts when the stage is free and what it needs has arrived; a message leaves when its action ends, over
//! the sender's link ([`Link::pass`]), and keeps nobody from computing.

mod closed;
mod costs;
mod result;

pub use closed::{Closed, interleaved_bubble};
pub use costs::{Costs, Uniform};
pub use result::{Interval, Simulation};

use crate::Result;
use crate::schedule::{Action, Schedule, Work, walk};
use collective::{Link, Topology};

/// What lies between the stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Links {
    /// Every message takes this long, in seconds, however many there are.
    Constant(f64),
    /// Stage s is rank s of a topology: messages of one stage over one tier follow each other.
    Topology(Topology),
}

impl Links {
    fn between(&self, from: usize, to: usize) -> (usize, Link) {
        match self {
            // A link without end of bandwidth is never busy.
            Self::Constant(seconds) => (0, Link { name: "send", latency: *seconds, bandwidth: f64::INFINITY }),
            Self::Topology(topology) => {
                let tier = Topology::tier(topology.node(from), topology.node(to));
                (tier as usize, topology.link(tier))
            }
        }
    }
}

/// Times `schedule`.
///
/// # Errors
/// The schedule is not valid.
pub fn simulate(schedule: &Schedule, costs: &impl Costs, links: &Links) -> Result<Simulation> {
    let (stages, positions) = (schedule.stages.len(), schedule.positions());
    // When the input of each (micro-batch, position) is there.
    let mut inputs = vec![0.0f64; schedule.micro_batches * positions];
    let mut gradients = inputs.clone();
    let mut free = vec![0.0f64; stages];
    let mut link_free = vec![[0.0f64; 2]; stages];
    let mut intervals: Vec<Vec<Interval>> = schedule.stages.iter().map(|list| Vec::with_capacity(list.len())).collect();
    let position = |stage, action: &Action| schedule.layout.position(stages, stage, action.chunk);
    let mut sent = vec![0u64; stages];
    walk(schedule, |step| {
        let stage = step.stage;
        let needed = step.actions.iter().map(|action| {
            let index = action.micro_batch * positions + position(stage, action);
            match action.work {
                Work::Forward => inputs[index],
                Work::Backward | Work::InputGradient => gradients[index],
                Work::WeightGradient => 0.0,
            }
        });
        let start = needed.fold(free[stage], f64::max);
        let seconds = match step.actions {
            [one] => costs.seconds(position(stage, one), one),
            several => costs.together(&|action| costs.seconds(position(stage, action), action), several),
        };
        let end = start + seconds;
        free[stage] = end;
        for action in step.actions {
            intervals[stage].push(Interval { action: *action, start, end });
            let position = position(stage, action);
            let (arrivals, next) = match action.work {
                Work::Forward if position + 1 < positions => (&mut inputs, position + 1),
                Work::Backward | Work::InputGradient if position > 0 => (&mut gradients, position - 1),
                _ => continue,
            };
            let (to, _) = schedule.layout.at(stages, next, action.chunk);
            arrivals[action.micro_batch * positions + next] = if to == stage {
                end
            } else {
                let (tier, link) = links.between(stage, to);
                let bytes = costs.bytes(action.micro_batch);
                let passage = link.pass(end, link_free[stage][tier], bytes);
                link_free[stage][tier] = passage.free;
                sent[stage] += bytes;
                passage.arrival
            };
        }
    })?;
    Ok(Simulation::new(schedule, intervals, sent))
}
