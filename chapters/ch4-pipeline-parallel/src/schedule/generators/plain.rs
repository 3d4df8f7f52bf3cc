//! Naive, GPipe and 1F1B: one chunk per stage, whole backwards.

use super::of_orders;
use crate::schedule::{Action, Layout, Schedule};

/// One micro-batch goes all the way down and back before the next starts.
pub fn naive(stages: usize, micro_batches: usize) -> Schedule {
    let order = |_| (0..micro_batches).flat_map(|i| [Action::forward(i, 0), Action::backward(i, 0)]).collect();
    of_orders(Layout::Straight, stages, micro_batches, order)
}

/// GPipe (Huang et al., 2019).
pub fn gpipe(stages: usize, micro_batches: usize) -> Schedule {
    of_orders(Layout::Straight, stages, micro_batches, |_| gpipe_order(micro_batches))
}

/// All forwards, then all backwards: every activation is kept until the last forward is done.
pub fn gpipe_order(micro_batches: usize) -> Vec<Action> {
    let forwards = (0..micro_batches).map(|i| Action::forward(i, 0));
    forwards.chain((0..micro_batches).map(|i| Action::backward(i, 0))).collect()
}

/// 1F1B (Narayanan et al., PipeDream, 2019; with a flush as in Megatron-LM).
pub fn one_forward_one_backward(stages: usize, micro_batches: usize) -> Schedule {
    let order = |stage| one_forward_one_backward_order(stage, stages, micro_batches);
    of_orders(Layout::Straight, stages, micro_batches, order)
}

/// Just enough forwards ahead for the first gradient to be back, then one forward and one backward in turn: at most
/// `stages − stage` micro-batches are in flight.
pub fn one_forward_one_backward_order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    let ahead = (stages - 1 - stage).min(micro_batches);
    let mut order: Vec<Action> = (0..ahead).map(|i| Action::forward(i, 0)).collect();
    for i in 0..micro_batches {
        if ahead + i < micro_batches {
            order.push(Action::forward(ahead + i, 0));
        }
        order.push(Action::backward(i, 0));
    }
    order
}
