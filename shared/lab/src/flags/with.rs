//! `--with`: whose code the program runs on.

use crate::Result;
use crate::exercises::{AnyExercise, Choice, With};
use clap::Args;

/// The chapter's own code, the learner's, or a typical mistake.
#[derive(Args, Clone, Debug, Default)]
pub struct WithFlags {
    /// Whose code to run on: `reference`, `homework` (yours), `homework:1.2,1.5` (yours for these exercises), `bug:NAME`
    #[arg(long, value_name = "CODE", default_value_t)]
    pub with: With,
}

impl WithFlags {
    /// What was chosen, among the exercises `known` to the program: its own chapter's and those of the chapters that it builds on.
    ///
    /// # Errors
    /// No such exercise or bug.
    pub fn choice(&self, known: &[&'static dyn AnyExercise]) -> Result<Choice> {
        Choice::new(self.with.clone(), known)
    }
}
