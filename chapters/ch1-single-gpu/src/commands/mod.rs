//! The subcommands of `cargo ch1`: flags → plan → run → result → shown.

mod corpus;
mod generate;
mod train;

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
    /// Train a model on one device
    Train(Box<train::Train>),
    /// Print the stories that the bundled model learnt from
    Corpus(corpus::Corpus),
}

impl Cli {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Whatever went wrong, with context.
    pub fn run(self, out: &mut Output) -> anyhow::Result<()> {
        match self.command {
            Command::Generate(command) => command.run(out),
            Command::Train(command) => command.run(out),
            Command::Corpus(command) => command.run(out),
        }
    }
}
