//! `cargo ch1`: chapter 1's program.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> ExitCode {
    let cli = <ch1_single_gpu::commands::Cli as clap::Parser>::parse();
    lab::program::run(|out| cli.run(out))
}
