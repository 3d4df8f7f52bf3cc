//! What a tensor-parallel group computes is what one device computes: losses, gradients, steps, text, saved models.
//!
//! - [`models`]: the models; [`ranks`]: running a group of ranks; [`compare`]: how far results may differ;
//! - the other modules are the tests, by subject.
//!
//! Draws start from a seed that a failure names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compare;
mod context;
mod folders;
mod gradients;
mod holding;
mod mistakes;
mod models;
mod ranks;
mod refused;
mod smollm2;
mod steps;
mod text;
mod traffic;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;
