//! Replicas are one device: losses, gradients and weights, whatever the ranks, the rows and the micro-batches; and a run whose rank
//! fails loses no step.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod ended;
mod steps;
mod support;
mod traffic;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;
