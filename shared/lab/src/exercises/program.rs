//! `cargo homework`: the state of all exercises, what to do next, hints, and the way back to a stub.

use super::report::{Entry, Report};
use super::stub::{Reset, reset};
use super::suite::prepare;
use super::{About, AnyExercise, Exercises, State, select};
use crate::program::Output;
use crate::{Error, Result};
use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::Path;

/// Where a reset saves what was written, from the current folder.
const SAVED: &str = "out/homework";

/// The exercises of all chapters: how far you are, what is next, hints.
#[derive(Parser, Debug)]
#[command(name = "homework", bin_name = "cargo homework", version, max_term_width = 120)]
#[command(after_help = "Without a command: the state of every exercise.")]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// The first exercise that does not pass: its task, where to write, what to run
    Next,
    /// A hint; a higher number says more
    Hint {
        /// Such as 1.2
        exercise: String,
        /// Which hint
        #[arg(default_value_t = 1)]
        number: usize,
    },
    /// Check exercises and show the whole diagnosis
    Check {
        /// Such as 1.2
        #[arg(required = true)]
        exercise: Vec<String>,
    },
    /// Put the stub back; what you wrote is saved under out/homework
    Reset {
        /// Such as 1.2
        exercise: String,
    },
    /// Every exercise with its whole diagnosis, for a teacher
    Report {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

impl Cli {
    /// Runs the command on `exercises`, those of all chapters.
    ///
    /// # Errors
    /// No such exercise or hint; a stub that cannot be found; for `check`, an exercise that does not pass.
    pub fn run(self, exercises: &Exercises, out: &mut Output) -> anyhow::Result<()> {
        prepare()?;
        match self.command {
            None => list(exercises, out),
            Some(Command::Next) => next(exercises, out),
            Some(Command::Hint { exercise, number }) => hint(&one(exercises, exercise)?.about(), number, out),
            Some(Command::Check { exercise }) => check(&select(exercises, &exercise)?, out),
            Some(Command::Reset { exercise }) => put_back(&one(exercises, exercise)?.about(), out),
            Some(Command::Report { json }) => report(exercises, json, out),
        }
    }
}

fn list(exercises: &Exercises, out: &mut Output) -> anyhow::Result<()> {
    let report = Report::of(exercises);
    writeln!(out, "{}\n\n{}", report.table(), report.sum())?;
    let begun = report.entries().iter().any(|entry| entry.state != State::NotStarted);
    if !begun {
        writeln!(out, "red is expected at the start: a stub is a `todo!` until you write it")?;
    }
    let hint = if report.all_passed() { "run a chapter on your code: --with homework" } else { "cargo homework next" };
    Ok(writeln!(out, "next: {hint}")?)
}

fn next(exercises: &Exercises, out: &mut Output) -> anyhow::Result<()> {
    // The first that does not pass is enough: later ones are not checked.
    let unsolved = exercises.iter().map(|exercise| Entry::of(*exercise)).find(|entry| entry.state != State::Passed);
    let Some(entry) = unsolved else {
        return Ok(writeln!(out, "all exercises pass; run a chapter on your code: --with homework")?);
    };
    Ok(writeln!(out, "{}\n\n{entry}", entry.about.stub.task()?)?)
}

fn hint(about: &About, number: usize, out: &mut Output) -> anyhow::Result<()> {
    let (id, count) = (about.id, about.hints.len());
    let hint = number.checked_sub(1).and_then(|index| about.hints.get(index)).ok_or_else(|| Error::Flag {
        flag: "hint",
        found: number.to_string(),
        expected: format!("exercise {id} has the hints 1 to {count}"),
    })?;
    writeln!(out, "{id}  {}, hint {number} of {count}:\n\n{hint}\n", about.title)?;
    if number < count {
        writeln!(out, "more: cargo homework hint {id} {}", number + 1)?;
    } else {
        writeln!(out, "that was the last one; the chapter's own code is in the same repository")?;
    }
    Ok(())
}

fn check(exercises: &Exercises, out: &mut Output) -> anyhow::Result<()> {
    let report = Report::of(exercises);
    report.entries().iter().try_for_each(|entry| writeln!(out, "{entry}"))?;
    out.flush()?;
    anyhow::ensure!(report.all_passed(), "{}", report.sum());
    Ok(())
}

fn put_back(about: &About, out: &mut Output) -> anyhow::Result<()> {
    let place = about.stub.shown();
    match reset(about, Path::new(SAVED))? {
        Reset::Untouched => writeln!(out, "{} is as it was handed out in {place}: nothing to do", about.id)?,
        Reset::Saved(saved) => {
            writeln!(out, "{} is a stub again in {place}; what you wrote is in {}", about.id, saved.display())?;
        }
    }
    Ok(())
}

fn report(exercises: &Exercises, json: bool, out: &mut Output) -> anyhow::Result<()> {
    let report = Report::of(exercises);
    if json {
        serde_json::to_writer_pretty(&mut *out, &report.document())?;
        return Ok(writeln!(out)?);
    }
    for Entry { about, state } in report.entries() {
        writeln!(out, "{} {}  {}", about.id, state.marked(), about.title)?;
        if let Some(diagnosis) = state.diagnosis() {
            diagnosis.text().lines().try_for_each(|line| writeln!(out, "      {line}"))?;
        }
    }
    Ok(writeln!(out, "\n{}", report.sum())?)
}

/// The exercise with this id.
fn one(exercises: &Exercises, id: String) -> Result<&'static dyn AnyExercise> {
    let selected = select(exercises, std::slice::from_ref(&id))?;
    let none = || Error::Flag { flag: "exercise", found: id, expected: "one that there is".to_owned() };
    selected.first().copied().ok_or_else(none)
}
