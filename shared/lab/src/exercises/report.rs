//! How far a learner is: every exercise with its state and diagnosis, as text, as a table, as a document.

use super::judge::{State, judge};
use super::{About, AnyExercise, Exercises, Implementation};
use crate::Table;
use serde::{Serialize, Serializer};
use std::fmt;

/// Characters of a diagnosis that stands in a table.
const LINE: usize = 60;

/// The state of one exercise on the learner's code.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The exercise.
    pub about: About,
    /// How far it is.
    pub state: State,
}

/// The states of several exercises.
#[derive(Clone, Debug)]
pub struct Report(Vec<Entry>);

impl Entry {
    /// Runs the check of `exercise` on the learner's code.
    pub fn of(exercise: &dyn AnyExercise) -> Self {
        let about = exercise.about();
        let missing = || State::Failing(super::Diagnosis::new("the exercise has no homework to check"));
        let state = exercise.check_of(Implementation::Homework).map_or_else(missing, |check| judge(about.id, check));
        Self { about, state }
    }

    /// The test that runs this exercise's check alone.
    pub fn test_command(&self) -> String {
        format!("cargo test -p {} --test homework -- {}", self.about.stub.package(), self.about.id)
    }
}

impl fmt::Display for Entry {
    /// The state, the whole diagnosis, where to write and what to run next.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let About { id, title, stub, .. } = self.about;
        let mark = if self.state == State::Passed { '✓' } else { '✗' };
        writeln!(f, "{mark} {id}  {title}: {}", self.state.name())?;
        if let Some(diagnosis) = self.state.diagnosis() {
            diagnosis.text().lines().try_for_each(|line| writeln!(f, "     {line}"))?;
        }
        if self.state == State::Passed {
            return Ok(());
        }
        writeln!(f, "     write  fn {} in {}", stub.functions.join(", fn "), stub.place())?;
        writeln!(f, "     hint   cargo homework hint {id}")?;
        writeln!(f, "     test   {}", self.test_command())
    }
}

impl Report {
    /// Runs every check on the learner's code, one after the other.
    pub fn of(exercises: &Exercises) -> Self {
        Self(exercises.iter().map(|exercise| Entry::of(*exercise)).collect())
    }

    /// The exercises in order.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// How many pass.
    pub fn passed(&self) -> usize {
        self.0.iter().filter(|entry| entry.state == State::Passed).count()
    }

    /// Whether all pass.
    pub fn all_passed(&self) -> bool {
        self.passed() == self.0.len()
    }

    /// `2 of 4 exercises pass`
    pub fn sum(&self) -> String {
        format!("{} of {} exercises pass", self.passed(), self.0.len())
    }

    /// A line for each exercise.
    pub fn table(&self) -> Table {
        let row = |entry: &Entry| {
            let diagnosis = entry.state.diagnosis().map_or_else(String::new, |diagnosis| diagnosis.line(LINE));
            [entry.about.id.to_owned(), entry.about.title.to_owned(), entry.state.marked(), diagnosis]
        };
        self.0.iter().map(row).fold(Table::new(["exercise", "what", "state", "diagnosis"]), Table::row)
    }

    /// For a teacher: the fields stay as they are, others may be added.
    pub fn document(&self) -> Document {
        let row = |entry: &Entry| Row {
            id: entry.about.id,
            title: entry.about.title,
            package: entry.about.stub.package(),
            state: entry.state.clone(),
            diagnosis: entry.state.diagnosis().map(|diagnosis| diagnosis.text().to_owned()),
        };
        Document { passed: self.passed(), count: self.0.len(), exercises: self.0.iter().map(row).collect() }
    }
}

/// A [`Report`] for `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    passed: usize,
    count: usize,
    exercises: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    id: &'static str,
    title: &'static str,
    package: &'static str,
    state: State,
    diagnosis: Option<String>,
}

impl Serialize for State {
    /// `"passed"`, `"not started"`, `"failing"`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
