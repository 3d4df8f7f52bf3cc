//! `cargo ch4`: chapter 4's program.

use std::num::NonZeroUsize;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> ExitCode {
    let cli = <ch4_pipeline_parallel::commands::Cli as clap::Parser>::parse();
    lab::program::run(|out| {
        // A rank is one core.
        lab::startup::set_threads(NonZeroUsize::MIN)?;
        cli.run(out)
    })
}
