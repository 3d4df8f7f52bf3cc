//! The checks of this chapter's exercises on the learner's code: `cargo test -p ch1-single-gpu --test homework`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> ExitCode {
    lab::exercises::suite::main(&ch1_single_gpu::exercises::exercises())
}
