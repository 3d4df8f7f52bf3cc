//! Runs on one device as a user has them: exact under accumulation, flat in memory, resumable to the last bit, and clear about
//! what is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accumulation;
mod memory;
mod refused;
mod resume;
mod support;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;
