//! Your code: the exercises of chapter 2.
//!
//! Each function is a stub with a task. Replace its `todo!` by your own lines, then
//!
//! ```sh
//! cargo test -p ch2-data-parallel --test homework
//! ```
//!
//! says what is right and what is not. All are red at the start.
#![allow(clippy::todo, unused_variables)] // A stub is a `todo!` that uses nothing.

use crate::Result;
use crate::scaling::Cost;
use collective::{Communicator, Link};
use std::ops::Range;
use training::Named;
use training::accumulation::Loss;

/// Exercise 2.2: which of `rows` rows does rank `rank` of `ranks` compute?
///
/// Every row belongs to exactly one rank, each rank's rows are consecutive, and no rank has more than one row above another: a step takes as
/// long as its slowest rank. `rows` need not be a multiple of `ranks`.
///
/// With `--with homework:2.2`, every command of `cargo ch2` deals its rows with your function.
pub fn rows_of_rank(rows: usize, ranks: usize, rank: usize) -> Range<usize> {
    todo!("exercise 2.2: cargo homework hint 2.2")
}

/// Exercise 2.3: make the loss and the gradients of this rank's rows those of the whole batch, the same on every rank of `group`.
///
/// `loss` has the sum over this rank's targets, and how many there are: another rank may have more or fewer. A gradient here is that of
/// `this rank's sum / count of the whole batch`. `gradients` is sorted by name, so every rank meets the parameters in one order.
///
/// A rank should send each gradient's bytes twice at most, however many ranks there are.
///
/// With `--with homework:2.3`, `cargo ch2 train` and `cargo ch2 gradients` synchronise with your function.
pub fn synchronise(group: &dyn Communicator, loss: &mut Loss, gradients: &mut Named) -> Result<()> {
    todo!("exercise 2.3: cargo homework hint 2.3")
}

/// Exercise 2.5: how long does a ring all-reduce of `elements` elements of `width` bytes take on `ranks` ranks that `link` joins?
///
/// Every rank has one chunk of the elements on the way at any time. First each rank adds what it receives to its own chunk and passes that
/// on, until every chunk is summed somewhere; then the sums go around once more. `elements` need not be a multiple of `ranks`.
/// `link.latency` is in seconds, `link.bandwidth` in bytes per second; [`Cost`] keeps the two apart.
///
/// With `--with homework:2.5`, `cargo ch2 scale` predicts with your function, beside the clock.
pub fn all_reduce(link: &Link, ranks: usize, elements: usize, width: usize) -> Cost {
    todo!("exercise 2.5: cargo homework hint 2.5")
}
