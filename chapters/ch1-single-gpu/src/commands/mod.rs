//! The subcommands of `cargo ch1`: flags → plan → run → result → shown.

mod generate;
mod kv;
mod memory;
mod throughput;
mod xw;

use clap::{Parser, Subcommand};
use lab::program::Output;

/// Chapter 1: why must a model be distributed? One device, from X·W = Y to the wall.
#[derive(Parser, Debug)]
#[command(name = "ch1", version, max_term_width = 120)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Continue a prompt, token by token
    Generate(generate::Generate),
    /// X · W = Y by itself: FLOPs, bytes and time against this machine's roofline
    Xw(xw::Xw),
    /// The KV cache: its bytes, and what it saves
    Kv(kv::Kv),
    /// What a model holds, and how many devices that takes at least
    Memory(memory::Memory),
    /// How long training published models takes on one device
    Throughput(throughput::Throughput),
}

impl Cli {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Whatever went wrong, with context.
    pub fn run(self, out: &mut Output) -> anyhow::Result<()> {
        match self.command {
            Command::Generate(command) => command.run(out),
            Command::Xw(command) => command.run(out),
            Command::Kv(command) => command.run(out),
            Command::Memory(command) => command.run(out),
            Command::Throughput(command) => command.run(out),
        }
    }
}
