//! `cargo test -p CHAPTER --test homework`: the checks of one chapter on the learner's code, as a test that reads like a lesson.
//!
//! The target has `test = false` and `harness = false`: a plain `cargo test` stays green while a learner is at work, and what is printed
//! is for the learner.

use super::Exercises;
use super::report::Report;
use super::select;
use crate::{program, startup};
use clap::Parser;
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// Runs the check of each exercise on your code
#[derive(Parser, Debug)]
#[command(name = "homework")]
struct Cli {
    /// Exercises to check [default: all of the chapter]
    #[arg(value_name = "EXERCISE")]
    ids: Vec<String>,
    /// Taken and ignored: nothing is captured
    #[arg(long, hide = true)]
    nocapture: bool,
}

/// The `main` of a chapter's `tests/homework.rs`: exit code 0 if all exercises that were asked for pass.
pub fn main(exercises: &Exercises) -> ExitCode {
    let cli = Cli::parse();
    program::run(|out| {
        prepare()?;
        let selected = select(exercises, &cli.ids)?;
        writeln!(
            out,
            "\nExercises on your code. Red is expected at the start: a stub is a `todo!` until you write it.\n"
        )?;
        let report = Report::of(&selected);
        report.entries().iter().try_for_each(|entry| writeln!(out, "{entry}"))?;
        if !report.all_passed() {
            out.flush()?;
            anyhow::bail!("{}; `cargo homework next` shows what to do first", report.sum());
        }
        Ok(writeln!(out, "{}", report.sum())?)
    })
}

/// A rank is one core, and what panics under a check is its result: nothing is printed for it.
///
/// # Errors
/// Another thread runs already.
pub(super) fn prepare() -> anyhow::Result<()> {
    startup::set_threads(NonZeroUsize::MIN)?;
    std::panic::set_hook(Box::new(|_| {}));
    Ok(())
}
