//! The decoder on random models: every way of feeding, cutting, holding and differentiating it gives one result.
//!
//! - [`models`]: the random models, one per shape that published families have, and tokens for them;
//! - [`reference`]: an independent forward in plain f64 loops; [`tolerance`]: how far results may differ, by type;
//! - [`sums`]: a gradient sink that adds up; the other modules are the tests, by subject.
//!
//! Every draw starts from [`models::seed`]; a failure names it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dtypes;
mod feeding;
mod finite_differences;
mod generating;
mod gradients;
mod lengths;
mod memory;
mod models;
mod observing;
mod reference;
mod sizes;
mod splitting;
mod sums;
mod tolerance;

/// So that `memory` measures.
#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;
