//! `cargo ch3`: chapter 3's program.

use std::num::NonZeroUsize;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> ExitCode {
    let cli = <ch3_tensor_parallel::commands::Cli as clap::Parser>::parse();
    lab::program::run(|out| {
        // A rank is one core.
        lab::startup::set_threads(NonZeroUsize::MIN)?;
        cli.run(out)
    })
}
