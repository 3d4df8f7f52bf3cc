//! The subcommands of `cargo ch3`: flags → layout → ranks → result → shown.

mod communication;
mod generate;
mod gradients;
mod long;
mod memory;
mod score;
mod sequence;
mod split;
mod tour;
mod train;

use clap::{Parser, Subcommand};
use lab::program::Output;

/// Chapter 3: how does tensor parallelism decompose one layer? Every rank computes all tokens with a part of every matrix.
#[derive(Parser, Debug)]
#[command(name = "ch3", bin_name = "cargo ch3", version, max_term_width = 120, args_conflicts_with_subcommands = true)]
#[command(after_help = "Without a command: a guided tour of the chapter, in under a minute.")]
pub struct Cli {
    #[command(flatten)]
    tour: tour::Tour,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Continue prompts on ranks that share every layer: the text of one device
    Generate(generate::Generate),
    /// How likely the model finds some texts
    Score(score::ScoreCommand),
    /// One backward: loss, and the norm of every parameter's gradient, gathered
    Gradients(gradients::GradientsCommand),
    /// Train on ranks that share every layer: exactly what one device does
    Train(Box<train::Train>),
    /// One feed-forward network and one attention block, cut: who holds what, summands before, the result after
    Split(split::SplitCommand),
    /// What a rank holds against tp: predicted, measured, and whether it fits
    Memory(memory::Memory),
    /// A long prompt over context-parallel ranks: keys and values, work, and bytes around the ring
    Long(long::Long),
    /// Which reductions a step makes: calls and bytes, predicted and counted, and their time over several links
    Communication(communication::Communication),
}

/// What is computed on if no text is given: sentences as the bundled model knows them, unequally long.
const DEFAULT_TEXTS: [&str; 4] =
    ["the dog ran home", "the cat sat on the mat.", "the bird", "the girl went to the park and"];

/// The share of a training step of a published model that is spent in reductions, over several links.
///
/// # Errors
/// A published figure is missing.
pub fn links_chart() -> decoder::Result<lab::plot::Chart> {
    Ok(communication::links::chart(&communication::links::cases()?))
}

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
            Some(Command::Train(command)) => command.run(out),
            Some(Command::Split(command)) => command.run(out),
            Some(Command::Memory(command)) => command.run(out),
            Some(Command::Long(command)) => command.run(out),
            Some(Command::Communication(command)) => command.run(out),
            None => self.tour.run(out),
        }
    }
}
