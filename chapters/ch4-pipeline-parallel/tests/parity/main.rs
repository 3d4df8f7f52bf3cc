//! What p stages compute is what one device computes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bundled;
mod failures;
mod gradients;
mod support;
mod timeline;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;
