//! The subcommands of `cargo ch4`: flags → plan → ranks → result → shown.

mod compare;
mod generate;
mod gradients;
mod kv;
mod schedule;
mod score;
mod simulate;
mod stages;
mod tour;
mod train;

pub use schedule::step_on;

use clap::{Parser, Subcommand};
use lab::program::Output;
use std::io::Write;
use std::path::Path;

/// Chapter 4: how does pipeline parallelism split across layers? Stages, and the order in which they work.
#[derive(Parser, Debug)]
#[command(name = "ch4", bin_name = "cargo ch4", version, max_term_width = 120, args_conflicts_with_subcommands = true)]
#[command(after_help = "Without a command: a guided tour of the chapter, in under a minute.")]
pub struct Cli {
    #[command(flatten)]
    tour: tour::Tour,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Which layers are on which stage, and what each stage costs and holds
    Stages(stages::StagesCommand),
    /// A schedule as a timeline: bubble and activations in flight, predicted and run
    Schedule(schedule::ScheduleCommand),
    /// A schedule of any size, from the times of its stages
    Simulate(simulate::SimulateCommand),
    /// All schedules on the same work: bubble, memory, bytes, time
    Compare(compare::CompareCommand),
    /// Train on several stages: exactly what one device does
    Train(Box<train::Train>),
    /// Continue prompts on several stages, some of them in flight at once
    Generate(generate::Generate),
    /// The KV cache by layer and by head: what each rank holds and sends
    Kv(kv::Kv),
    /// How likely the model finds some texts, on several stages
    Score(score::ScoreCommand),
    /// One backward over all stages: loss, and the norm of every parameter's gradient
    Gradients(gradients::GradientsCommand),
}

/// What is computed on if no text is given: sentences as the bundled model knows them, unequally long.
const DEFAULT_TEXTS: [&str; 4] =
    ["the dog ran home", "the cat sat on the mat.", "the bird", "the girl went to the park and"];

/// Says which files were written: the last lines of a command's report.
fn files(out: &mut Output, written: &[(&str, Option<&Path>)]) -> anyhow::Result<()> {
    let written: Vec<_> = written.iter().filter_map(|(what, path)| path.map(|path| (what, path))).collect();
    if !written.is_empty() {
        writeln!(out)?;
    }
    for (what, path) in written {
        writeln!(out, "{what}: {}", path.display())?;
    }
    Ok(())
}

impl Cli {
    /// Runs the subcommand; without one, the guided tour.
    ///
    /// # Errors
    /// Whatever went wrong, with context.
    pub fn run(self, out: &mut Output) -> anyhow::Result<()> {
        match self.command {
            Some(Command::Stages(command)) => command.run(out),
            Some(Command::Schedule(command)) => command.run(out),
            Some(Command::Simulate(command)) => command.run(out),
            Some(Command::Compare(command)) => command.run(out),
            Some(Command::Train(command)) => command.run(out),
            Some(Command::Generate(command)) => command.run(out),
            Some(Command::Kv(command)) => command.run(out),
            Some(Command::Score(command)) => command.run(out),
            Some(Command::Gradients(command)) => command.run(out),
            None => self.tour.run(out),
        }
    }
}
