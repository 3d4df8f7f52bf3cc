//! Whose code a program runs on: [`With`] is what `--with` says, [`Choice`] is that, checked against the exercises that the program knows.

use super::{AnyExercise, ids_of};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What `--with` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum With {
    /// `reference`: the chapters' own code.
    #[default]
    Reference,
    /// `homework`, `homework:3.2,3.4`: the learner's code, for the rest the chapters'.
    Homework(Selection),
    /// `bug:NAME`: one mistake in the chapters' code.
    Bug(String),
}

/// Which exercises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every one.
    All,
    /// Those with these ids.
    Ids(BTreeSet<String>),
}

impl Selection {
    /// Whether exercise `id` is among them.
    pub fn holds(&self, id: &str) -> bool {
        match self {
            Self::All => true,
            Self::Ids(ids) => ids.contains(id),
        }
    }
}

impl FromStr for With {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "reference" => Ok(Self::Reference),
            None if text == "homework" => Ok(Self::Homework(Selection::All)),
            Some(("homework", ids)) if !ids.split(',').any(|id| id.trim().is_empty()) => {
                Ok(Self::Homework(Selection::Ids(ids.split(',').map(|id| id.trim().to_owned()).collect())))
            }
            Some(("bug", name)) if !name.is_empty() => Ok(Self::Bug(name.to_owned())),
            _ => Err("expected reference, homework, homework:1.2,1.5 or bug:NAME".to_owned()),
        }
    }
}

impl fmt::Display for With {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference => f.write_str("reference"),
            Self::Homework(Selection::All) => f.write_str("homework"),
            Self::Homework(Selection::Ids(ids)) => {
                write!(f, "homework:{}", ids.iter().map(String::as_str).collect::<Vec<_>>().join(","))
            }
            Self::Bug(name) => write!(f, "bug:{name}"),
        }
    }
}

/// What `--with` says, of exercises that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice(With);

impl Choice {
    /// `with`, checked against `known`: the exercises of every chapter whose code the program runs.
    ///
    /// # Errors
    /// An id or a bug that none of them has; the message lists those there are.
    pub fn new(with: With, known: &[&'static dyn AnyExercise]) -> Result<Self> {
        let refuse = |found: &str, expected| Err(Error::Flag { flag: "--with", found: found.to_owned(), expected });
        match &with {
            With::Homework(Selection::Ids(ids)) => {
                let has = |id: &String| known.iter().any(|exercise| exercise.about().id == id);
                if let Some(id) = ids.iter().find(|id| !has(id)) {
                    return refuse(
                        &format!("homework:{id}"),
                        format!("this program has the exercises {}", ids_of(known)),
                    );
                }
            }
            With::Bug(name) => {
                let bugs: Vec<_> = known.iter().flat_map(|exercise| exercise.bugs()).map(|bug| bug.name).collect();
                if !bugs.contains(&name.as_str()) {
                    return refuse(&format!("bug:{name}"), format!("this program has the bugs {}", bugs.join(", ")));
                }
            }
            With::Reference | With::Homework(Selection::All) => {}
        }
        Ok(Self(with))
    }

    /// What was chosen.
    pub fn with(&self) -> &With {
        &self.0
    }
}
