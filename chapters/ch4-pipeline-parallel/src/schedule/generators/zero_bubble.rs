//! ZB-H1 and ZB-H2 (Qi et al., Zero Bubble Pipeline Parallelism, 2023, section 2).
//!
//! The backward is cut into its two halves. Only the input gradient is waited for, so the weight gradients fill what would be a
//! bubble: later stages put them off longer.

use super::of_orders;
use crate::schedule::{Action, Layout, Schedule};

/// The memory of 1F1B, a third of its bubble.
pub fn zb_h1(stages: usize, micro_batches: usize) -> Schedule {
    of_orders(Layout::Straight, stages, micro_batches, |stage| zb_h1_order(stage, stages, micro_batches))
}

/// No bubble, with up to 2p − 1 micro-batches in flight.
pub fn zb_h2(stages: usize, micro_batches: usize) -> Schedule {
    of_orders(Layout::Straight, stages, micro_batches, |stage| zb_h2_order(stage, stages, micro_batches))
}

/// `stages − stage` forwards ahead; a weight gradient as soon as more than `stage` of them wait.
pub fn zb_h1_order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    late_weights(stages - stage, stage, micro_batches)
}

/// 2·(stages − 1 − stage) + 1 forwards ahead; a weight gradient as soon as more than 2·`stage` wait.
pub fn zb_h2_order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    late_weights(2 * (stages - 1 - stage) + 1, 2 * stage, micro_batches)
}

/// `ahead` forwards; then in turn: an input gradient; a weight gradient if more than `lag` wait or no input gradient is left; a
/// forward if one is left.
fn late_weights(ahead: usize, lag: usize, micro_batches: usize) -> Vec<Action> {
    let mut forwards = ahead.min(micro_batches);
    let (mut inputs, mut weights) = (0, 0);
    let mut order: Vec<Action> = (0..forwards).map(|i| Action::forward(i, 0)).collect();
    while weights < micro_batches {
        if inputs < micro_batches {
            order.push(Action::input_gradient(inputs, 0));
            inputs += 1;
        }
        if inputs - weights > lag || inputs == micro_batches {
            order.push(Action::weight_gradient(weights, 0));
            weights += 1;
        }
        if forwards < micro_batches {
            order.push(Action::forward(forwards, 0));
            forwards += 1;
        }
    }
    order
}
