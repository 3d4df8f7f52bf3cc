//! The subcommands of `cargo ch2`: flags → plan → ranks → result → shown.

mod generate;
mod gradients;
mod memory;
mod partition;
mod scale;
mod score;
mod tour;
mod train;

pub use tour::{Trained, apart, mean_of_means, rank_losses, replica_gradients, trained};

use crate::core::Core;
use crate::partition::Product;
use clap::{Parser, Subcommand};
use lab::plot::Blocks;
use lab::program::Output;

/// Chapter 2: how are data and parameters partitioned? Data parallelism, from one product to a training run.
#[derive(Parser, Debug)]
#[command(name = "ch2", bin_name = "cargo ch2", version, max_term_width = 120, args_conflicts_with_subcommands = true)]
#[command(after_help = "Without a command: a guided tour of the chapter, in under a minute.")]
pub struct Cli {
    #[command(flatten)]
    tour: tour::Tour,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// One product divided by rows of X, by columns of W, by rows of W: who holds what, and who must send what
    Partition(partition::Partition),
    /// Continue several prompts, each on one of the replicas
    Generate(generate::Generate),
    /// How likely the model finds some texts, each on one of the replicas
    Score(score::ScoreCommand),
    /// One backward over all replicas: loss, and the norm of every parameter's gradient
    Gradients(gradients::GradientsCommand),
    /// Train on several replicas: exactly what one device does
    Train(Box<train::Train>),
    /// What more ranks are worth over which link, and where the link eats the gain
    Scale(Box<scale::Scale>),
    /// What each rank holds: why data parallelism does not help a model that does not fit
    Memory(memory::Memory),
}

/// What is computed on if no text is given: sentences as the bundled model knows them, two short ones for one rank, two long ones for
/// another.
const DEFAULT_TEXTS: [&str; 4] =
    ["the bird", "the dog ran home", "the cat sat on the mat.", "the girl went to the park and"];

/// The three ways to divide `product` over `ranks` ranks, as a picture.
///
/// # Errors
/// `core` gives a rank rows that X does not have.
pub fn partition_figure(core: &Core, product: &Product, ranks: usize) -> crate::Result<Blocks> {
    partition::figure::draw(core, product, ranks)
}

impl Cli {
    /// Runs the subcommand; without one, the guided tour.
    ///
    /// # Errors
    /// Whatever went wrong, with context.
    pub fn run(self, out: &mut Output) -> anyhow::Result<()> {
        match self.command {
            Some(Command::Partition(command)) => command.run(out),
            Some(Command::Generate(command)) => command.run(out),
            Some(Command::Score(command)) => command.run(out),
            Some(Command::Gradients(command)) => command.run(out),
            Some(Command::Train(command)) => command.run(out),
            Some(Command::Memory(command)) => command.run(out),
            Some(Command::Scale(command)) => command.run(out),
            None => self.tour.run(out),
        }
    }
}
