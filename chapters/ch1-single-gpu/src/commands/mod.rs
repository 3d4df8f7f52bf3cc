//! The subcommands of `cargo ch1`: flags → plan → run → result → shown.

mod corpus;
mod generate;
mod gradients;
mod kv;
mod layer;
mod memory;
mod score;
mod throughput;
mod tour;
mod train;
mod wall;
mod xw;

pub use kv::figure::flops_chart;
pub use xw::under_the_roof;

use clap::{Parser, Subcommand};
use lab::program::Output;

/// Chapter 1: why must a model be distributed? One device, from X·W = Y to the wall.
#[derive(Parser, Debug)]
#[command(name = "ch1", bin_name = "cargo ch1", version, max_term_width = 120, args_conflicts_with_subcommands = true)]
#[command(after_help = "Without a command: a guided tour of the chapter, in under a minute.")]
pub struct Cli {
    #[command(flatten)]
    tour: tour::Tour,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Continue a prompt, token by token
    Generate(generate::Generate),
    /// How likely the model finds a text: log-probabilities, loss, the best next tokens
    Score(score::ScoreCommand),
    /// One backward: loss, and the norm of every parameter's gradient
    Gradients(gradients::GradientsCommand),
    /// Every operation of one decoder layer: shapes, FLOPs, bytes, and where the layer may be cut
    Layer(layer::LayerCommand),
    /// X · W = Y by itself: FLOPs, bytes and time against this machine's roofline
    Xw(xw::Xw),
    /// The KV cache: its bytes, and what it saves
    Kv(kv::Kv),
    /// What a model holds, and how many devices that takes at least
    Memory(memory::Memory),
    /// The smallest device that a model fits on, predicted and found by running out of memory
    Wall(wall::Wall),
    /// How long training published models takes on one device
    Throughput(throughput::Throughput),
    /// Train a model on one device
    Train(Box<train::Train>),
    /// Print the stories that the bundled model learnt from
    Corpus(corpus::Corpus),
}

/// What is computed on if no text is given: a sentence as the bundled model knows them.
const DEFAULT_TEXT: &str = "the dog ran home";

impl Cli {
    /// Runs the subcommand; without one, the guided tour.
    ///
    /// # Errors
    /// Whatever went wrong, with context.
    pub fn run(self, out: &mut Output) -> anyhow::Result<()> {
        match self.command {
            Some(Command::Generate(command)) => command.run(out),
            Some(Command::Score(command)) => command.run(out),
            Some(Command::Gradients(command)) => command.run(out),
            Some(Command::Layer(command)) => command.run(out),
            Some(Command::Xw(command)) => command.run(out),
            Some(Command::Kv(command)) => command.run(out),
            Some(Command::Memory(command)) => command.run(out),
            Some(Command::Wall(command)) => command.run(out),
            Some(Command::Throughput(command)) => command.run(out),
            Some(Command::Train(command)) => command.run(out),
            Some(Command::Corpus(command)) => command.run(out),
            None => self.tour.run(out),
        }
    }
}
