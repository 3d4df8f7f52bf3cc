//! ZB-V (Qi et al., Pipeline Parallelism with Controllable Memory, 2024; the order is that of PyTorch's `ScheduleZBVZeroBubble`).
//!
//! Each stage holds a chunk of the way down and one of the way back up, so the last chunk is on the first stage, and its first
//! gradient is there when its forward ends.

use super::of_orders;
use crate::schedule::{Action, Layout, Schedule, Work};

/// No bubble if forward and both gradients take equally long, with the memory of 1F1B.
pub fn zb_v(stages: usize, micro_batches: usize) -> Schedule {
    of_orders(Layout::V, stages, micro_batches, |stage| zb_v_order(stage, stages, micro_batches))
}

/// The order for as many micro-batches as fill the V, 2p − 1, or more; actions of micro-batches that are not there are left out.
pub fn zb_v_order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    let filled = micro_batches.max(2 * stages - 1);
    let mut line = Line::default();
    for _ in 0..2 * (stages - stage) - 1 {
        line.push(Work::Forward, 0);
    }
    for _ in 0..stage {
        line.push(Work::Forward, 1);
        line.push(Work::Forward, 0);
    }
    for _ in 0..stages - stage {
        line.push(Work::Forward, 1);
        line.push(Work::InputGradient, 1);
        line.push(Work::WeightGradient, 1);
    }
    while line.forwards[1] < line.forwards[0] || line.forwards[0] < filled {
        if line.forwards[0] < filled {
            line.push(Work::Forward, 0);
        }
        line.push(Work::InputGradient, 0);
        line.push(Work::WeightGradient, 0);
        line.push(Work::Forward, 1);
        line.push(Work::InputGradient, 1);
        line.push(Work::WeightGradient, 1);
    }
    for _ in 0..stage {
        line.push(Work::InputGradient, 0);
        line.push(Work::InputGradient, 1);
    }
    for _ in 0..stages - stage {
        line.push(Work::InputGradient, 0);
        line.push(Work::WeightGradient, 0);
    }
    for chunk in [1, 0] {
        while line.weights[chunk] < line.inputs[chunk] {
            line.push(Work::WeightGradient, chunk);
        }
    }
    line.order.retain(|action| action.micro_batch < micro_batches);
    line.order
}

/// The list so far, and the next micro-batch for each work and chunk.
#[derive(Default)]
struct Line {
    order: Vec<Action>,
    forwards: [usize; 2],
    inputs: [usize; 2],
    weights: [usize; 2],
}

impl Line {
    fn push(&mut self, work: Work, chunk: usize) {
        let next = match work {
            Work::Forward => &mut self.forwards,
            Work::Backward | Work::InputGradient => &mut self.inputs,
            Work::WeightGradient => &mut self.weights,
        };
        self.order.push(Action::new(work, next[chunk], chunk));
        next[chunk] += 1;
    }
}
