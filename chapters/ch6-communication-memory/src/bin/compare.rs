//! `cargo compare`: every way of distributing the same work, side by side.

use std::num::NonZeroUsize;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> ExitCode {
    let cli = <ch6_communication_memory::compare::Cli as clap::Parser>::parse();
    lab::program::run(|out| {
        // A rank is one core.
        lab::startup::set_threads(NonZeroUsize::MIN)?;
        cli.run(out)
    })
}
