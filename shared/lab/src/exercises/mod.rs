//! Exercises: one typed table each, the reference, the learner's stub and the typical bugs side by side.
//!
//! A chapter's core ideas are small functions. An [`Exercise<F>`] holds, for one of them, every implementation there is: the chapter's own
//! code, the stub that the learner fills in, and mistakes that people make, as real code. All have the type `F`, so their signatures cannot
//! drift apart, and one check judges them all: it returns a [`Diagnosis`] in the learner's terms.
//!
//! - [`with`]: whose code a program runs on, `--with reference|homework|bug:NAME`; [`Exercise::choose`] hands it out;
//! - [`judge`]: a check as it is run: panics and hangs end as a state, not as the end of the program;
//! - [`stub`]: where the learner writes: its task, its line, and the way back to `todo!`;
//! - [`suite`]: `cargo test -p CHAPTER --test homework`; [`program`]: `cargo homework`; both show a [`report`];
//! - [`verify`]: what a chapter's tests demand of its tables.

mod diagnosis;
pub mod judge;
pub mod program;
pub mod report;
mod source;
pub mod stub;
pub mod suite;
#[cfg(test)]
mod tests;
mod verify;
pub mod with;

pub use diagnosis::Diagnosis;
pub use judge::State;
pub use stub::Stub;
pub use verify::verify;
pub use with::{Choice, With};

use crate::{Error, Result};

/// One exercise: all implementations of one idea, and the check that judges any of them.
///
/// `F` is a function pointer, or a plain struct of some where an idea takes several functions.
#[derive(Debug)]
pub struct Exercise<F: 'static> {
    /// Chapter and section of the lesson that teaches it: `3.2`. The same everywhere: heading, stub, command, report.
    pub id: &'static str,
    /// What is to be written, in a few words.
    pub title: &'static str,
    /// The chapter's own code.
    pub reference: F,
    /// The learner's code; a stub at first.
    pub homework: F,
    /// Where the stub stands.
    pub stub: Stub,
    /// From a nudge to nearly the answer.
    pub hints: &'static [&'static str],
    /// Typical mistakes, each of which the check must catch.
    pub bugs: &'static [Bug<F>],
    /// Judges an implementation by values and by resources. It may panic or not end: see [`judge`].
    pub check: fn(&F) -> Result<(), Diagnosis>,
}

/// A typical mistake, as a real implementation.
#[derive(Debug)]
pub struct Bug<F> {
    /// For `--with bug:NAME`; no two bugs of the workspace share one.
    pub name: &'static str,
    /// The mistake in a few words.
    pub what: &'static str,
    /// The wrong code.
    pub implementation: F,
    /// What the check's diagnosis must contain for this bug, and for no other of its exercise.
    pub diagnosis: &'static str,
}

/// What an exercise is, apart from its code.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// See [`Exercise::id`].
    pub id: &'static str,
    /// See [`Exercise::title`].
    pub title: &'static str,
    /// See [`Exercise::stub`].
    pub stub: Stub,
    /// See [`Exercise::hints`].
    pub hints: &'static [&'static str],
}

/// What a bug is, apart from its code.
#[derive(Clone, Copy, Debug)]
pub struct AboutBug {
    /// See [`Bug::name`].
    pub name: &'static str,
    /// See [`Bug::what`].
    pub what: &'static str,
    /// See [`Bug::diagnosis`].
    pub diagnosis: &'static str,
}

/// One of an exercise's implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation<'a> {
    /// The chapter's own.
    Reference,
    /// The learner's.
    Homework,
    /// The mistake of this name.
    Bug(&'a str),
}

/// The check of one implementation, ready to be run on any thread.
pub type Check = Box<dyn FnOnce() -> Result<(), Diagnosis> + Send>;

/// An exercise of any signature: what lists hold.
pub trait AnyExercise: Sync {
    /// What it is.
    fn about(&self) -> About;

    /// Its bugs.
    fn bugs(&self) -> Vec<AboutBug>;

    /// The check of one implementation; `None` if there is no such bug.
    fn check_of(&self, implementation: Implementation<'_>) -> Option<Check>;
}

/// The exercises of one chapter, or of several: `[ch1::exercises(), ch2::exercises()].concat()`.
pub type Exercises = Vec<&'static dyn AnyExercise>;

impl<F: Copy> Exercise<F> {
    /// The implementation that `choice` names: the reference, unless it names this exercise.
    pub fn choose(&self, choice: &Choice) -> F {
        let of_bug = |name| self.bugs.iter().find(|bug| bug.name == name).map(|bug| bug.implementation);
        match choice.with() {
            With::Reference => self.reference,
            With::Homework(selection) if selection.holds(self.id) => self.homework,
            With::Homework(_) => self.reference,
            With::Bug(name) => of_bug(name).unwrap_or(self.reference),
        }
    }

    fn implementation(&self, implementation: Implementation<'_>) -> Option<F> {
        match implementation {
            Implementation::Reference => Some(self.reference),
            Implementation::Homework => Some(self.homework),
            Implementation::Bug(name) => self.bugs.iter().find(|bug| bug.name == name).map(|bug| bug.implementation),
        }
    }
}

impl<F: Copy + Send + Sync + 'static> AnyExercise for Exercise<F> {
    fn about(&self) -> About {
        About { id: self.id, title: self.title, stub: self.stub, hints: self.hints }
    }

    fn bugs(&self) -> Vec<AboutBug> {
        let about = |bug: &Bug<F>| AboutBug { name: bug.name, what: bug.what, diagnosis: bug.diagnosis };
        self.bugs.iter().map(about).collect()
    }

    fn check_of(&self, implementation: Implementation<'_>) -> Option<Check> {
        let (check, implementation) = (self.check, self.implementation(implementation)?);
        Some(Box::new(move || check(&implementation)))
    }
}

/// The exercises with these ids, in the order of `known`; all of them if no id is given.
///
/// # Errors
/// An id that none of `known` has; the message lists those there are.
pub fn select(known: &[&'static dyn AnyExercise], ids: &[String]) -> Result<Exercises> {
    let has = |id: &str| known.iter().any(|exercise| exercise.about().id == id);
    match ids.iter().find(|id| !has(id)) {
        Some(unknown) => Err(Error::Flag {
            flag: "exercise",
            found: unknown.clone(),
            expected: format!("no such exercise; there are {}", ids_of(known)),
        }),
        None => Ok(known
            .iter()
            .filter(|exercise| ids.is_empty() || ids.iter().any(|id| id == exercise.about().id))
            .copied()
            .collect()),
    }
}

/// `1.2, 1.5`
fn ids_of(known: &[&'static dyn AnyExercise]) -> String {
    known.iter().map(|exercise| exercise.about().id).collect::<Vec<_>>().join(", ")
}
