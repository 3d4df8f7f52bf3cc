//! Your code: the exercises of chapter 3.
//!
//! Each function is a stub with a task. Replace its `todo!` by your own lines, then
//!
//! ```sh
//! cargo test -p ch3-tensor-parallel --test homework
//! ```
//!
//! says what is right and what is not. All are red at the start.
#![allow(clippy::todo, unused_variables)] // A stub is a `todo!` that uses nothing.

use crate::gradients::Summed;
use crate::layout::Layout;
use candle_core::Tensor;
use collective::Communicator;
use decoder::weights::{Part, Role, WeightSpec};
use std::ops::Range;
use std::sync::Arc;

/// Exercise 3.2: which part of `weight` does rank `rank` hold?
///
/// A weight is `[out, in]`. Its `role` says what it is for; `layout` knows the model and the number of ranks. A rank computes consecutive
/// query heads, the key heads that these attend to, consecutive columns of the feed-forward network, consecutive entries of the vocabulary;
/// what it computes first is the input of what it computes next. Weights that act on whole hidden states are on every rank.
///
/// With `--with homework:3.2`, every command of `cargo ch3` loads its weights by your function.
pub fn part_of_rank(layout: &Layout, weight: &WeightSpec, rank: usize) -> Part {
    todo!("exercise 3.2: cargo homework hint 3.2")
}

/// Exercise 3.3: f, before a column-parallel product. `x` is whole, the same on every rank; so is what f returns. On the way back each rank
/// hands f its summand of the gradient.
///
/// `collective::autograd::with_backward` makes an operation of a forward and a backward.
///
/// With `--with homework:3.3`, every command of `cargo ch3` runs on your f and g.
pub fn f(group: &Arc<dyn Communicator>, x: &Tensor) -> collective::Result<Tensor> {
    todo!("exercise 3.3: cargo homework hint 3.3")
}

/// Exercise 3.3: g, behind a row-parallel product. `x` is this rank's summand; what g returns is the sum, the same on every rank. On the way
/// back each rank hands g the same gradient, that of the sum.
pub fn g(group: &Arc<dyn Communicator>, x: &Tensor) -> collective::Result<Tensor> {
    todo!("exercise 3.3: cargo homework hint 3.3")
}

/// Exercise 3.5: over which ranks is the gradient of a weight for `role` still to be summed after the backward?
///
/// A weight that only one rank holds, or that all ranks used on the same data, has its whole gradient there. `layout.replicas()` ranks hold
/// the same key head. With sequence parallelism a rank computes norms, and whatever else lies between the blocks, for a slice of the tokens.
///
/// With `--with homework:3.5`, `cargo ch3 gradients` and `cargo ch3 train` sum what your function says.
pub fn summed_over(layout: &Layout, role: Role, sequence_parallel: bool) -> Summed {
    todo!("exercise 3.5: cargo homework hint 3.5")
}

/// Exercise 3.7: which tokens of a sequence of `length` tokens does rank `rank` of `ranks` compute? Two chunks, in the order of their
/// positions.
///
/// Every token is on exactly one rank. A token attends to all before it and itself; all ranks should have the same number of pairs of a query
/// and a key. `length` need not be a multiple of anything, but has two tokens per rank at least.
///
/// With `--with homework:3.7`, `cargo ch3 long` deals its tokens with your function.
pub fn chunks_of_rank(length: usize, ranks: usize, rank: usize) -> [Range<usize>; 2] {
    todo!("exercise 3.7: cargo homework hint 3.7")
}
