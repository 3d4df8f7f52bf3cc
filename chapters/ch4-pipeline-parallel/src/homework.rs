//! Your code: the exercises of chapter 4.
//!
//! Each function is a stub with a task. Replace its `todo!` by your own lines, then
//!
//! ```sh
//! cargo test -p ch4-pipeline-parallel --test homework
//! ```
//!
//! says what is right and what is not. All are red at the start.
#![allow(clippy::todo, unused_variables)] // A stub is a `todo!` that uses nothing.

use crate::schedule::Action;
use crate::stages::LayerCosts;
use std::ops::Range;

/// Exercise 4.1: cut the layers into `chunks` parts, in order, such that the most expensive part is as cheap as possible.
///
/// Every part has at least one layer, and every layer is in one part. The first part also has the embedding, the last one the head:
/// `costs.chunk(layers, position, chunks)` adds them where they belong. There are at least as many layers as parts.
///
/// With `--with homework:4.1`, every command of `cargo ch4` cuts the model with your function.
pub fn balanced_cuts(costs: &LayerCosts, chunks: usize) -> Vec<Range<usize>> {
    todo!("exercise 4.1: cargo homework hint 4.1")
}

/// Exercise 4.3: what does stage `stage` of `stages` do, in which order, for `micro_batches` micro-batches, with 1F1B?
///
/// `Action::forward(i, 0)` is the forward of micro-batch i, `Action::backward(i, 0)` its backward. A stage should keep the activations of as
/// few micro-batches as possible, and nobody should wait longer than with GPipe.
///
/// With `--with homework:4.3`, `--schedule 1f1b` is your order: timed, and run on tensors.
pub fn one_forward_one_backward_order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    todo!("exercise 4.3: cargo homework hint 4.3")
}

/// Exercise 4.4: what is the summed loss of a micro-batch multiplied by before its backward?
///
/// The micro-batch has `own` targets that count, the whole batch `batch`, in `micro_batches` parts. The gradients of the parts are added:
/// they must be the gradient of the mean loss of the batch.
///
/// With `--with homework:4.4`, `cargo ch4 train` and `cargo ch4 gradients` scale with your function.
pub fn loss_scale(own: usize, batch: usize, micro_batches: usize) -> f64 {
    todo!("exercise 4.4: cargo homework hint 4.4")
}

/// Exercise 4.5: what does stage `stage` of `stages` do with ZB-H1?
///
/// `Action::input_gradient(i, 0)` and `Action::weight_gradient(i, 0)` are the two halves of a backward. No stage should hold something of
/// more than `stages` micro-batches, and with enough micro-batches the stages should wait a third of what they wait with 1F1B, if forward
/// and both halves take equally long.
///
/// With `--with homework:4.5`, `--schedule zb-h1` is your order: timed, and run on tensors.
pub fn zb_h1_order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    todo!("exercise 4.5: cargo homework hint 4.5")
}
