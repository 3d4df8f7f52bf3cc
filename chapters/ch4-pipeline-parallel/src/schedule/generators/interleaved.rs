//! Interleaved 1F1B (Narayanan et al., Efficient Large-Scale Language Model Training, 2021, section 2.2).

use super::of_orders;
use crate::schedule::{Action, Layout, Schedule};

/// `chunks` chunks per stage; micro-batches go around in groups of one per stage.
pub fn interleaved(stages: usize, micro_batches: usize, chunks: usize) -> Schedule {
    let order = |stage| interleaved_order(stage, stages, micro_batches, chunks);
    of_orders(Layout::Interleaved { chunks }, stages, micro_batches, order)
}

/// Forwards ahead of the first backward: the way down and back of the first group, through all chunks but one.
pub fn interleaved_warm_up(stage: usize, stages: usize, micro_batches: usize, chunks: usize) -> usize {
    (2 * (stages - 1 - stage) + (chunks - 1) * stages).min(micro_batches * chunks)
}

/// As 1F1B, over (micro-batch, chunk) pairs: a group of `stages` micro-batches through the first chunk, the same group through the
/// next, …, then the next group. Backwards go through the chunks the other way around.
pub fn interleaved_order(stage: usize, stages: usize, micro_batches: usize, chunks: usize) -> Vec<Action> {
    let pair = |k: usize| (k / (stages * chunks) * stages + k % stages, k % (stages * chunks) / stages);
    let forward = |k| {
        let (micro_batch, chunk) = pair(k);
        Action::forward(micro_batch, chunk)
    };
    let backward = |k| {
        let (micro_batch, chunk) = pair(k);
        Action::backward(micro_batch, chunks - 1 - chunk)
    };
    let (pairs, ahead) = (micro_batches * chunks, interleaved_warm_up(stage, stages, micro_batches, chunks));
    let mut order: Vec<Action> = (0..ahead).map(forward).collect();
    for k in 0..pairs {
        if ahead + k < pairs {
            order.push(forward(ahead + k));
        }
        order.push(backward(k));
    }
    order
}
