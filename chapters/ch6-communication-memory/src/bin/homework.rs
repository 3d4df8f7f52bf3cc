//! `cargo homework`: the exercises of all chapters: how far you are, what is next, hints.

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> ExitCode {
    let cli = lab::exercises::program::Cli::parse();
    lab::program::run(|out| cli.run(&ch6_communication_memory::exercises::exercises(), out))
}
