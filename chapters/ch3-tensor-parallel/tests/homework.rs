//! The checks of this chapter's exercises on the learner's code: `cargo test -p ch3-tensor-parallel --test homework`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> ExitCode {
    lab::exercises::suite::main(&ch3_tensor_parallel::exercises::exercises())
}
