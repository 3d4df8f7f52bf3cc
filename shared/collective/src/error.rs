//! What goes wrong among ranks: [`Failure`] is the one cause that stopped a group, [`Error`] what a caller sees.

use crate::Call;
use std::fmt;
use std::sync::Arc;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of any crate, as a rank returned it.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What a communicator, a launch or a mesh can object to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The group failed; the launcher returns this, once.
    #[error(transparent)]
    Failed(Arc<Failure>),
    /// This rank stops because the group failed; what the other ranks see.
    #[error("rank {rank} stops in {call}, because the group failed: {failure}")]
    Stopped {
        /// This rank.
        rank: usize,
        /// What it was about to do.
        call: String,
        /// Why.
        failure: Arc<Failure>,
    },
    /// An operation has no meaning, whatever the other ranks do.
    #[error("{call}: {problem}")]
    Argument {
        /// The operation and its operands.
        call: String,
        /// What is wrong, and what would be legal.
        problem: String,
    },
    /// A setting of a launch, a link or a clock.
    #[error("{name} = {found}: {expected}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        found: String,
        /// What would be legal.
        expected: String,
    },
    /// A mesh and what it was asked for do not fit together.
    #[error("mesh {mesh}: {problem}")]
    Mesh {
        /// The mesh, as `dp 2 × tp 4`.
        mesh: String,
        /// What is wrong, and what would be legal.
        problem: String,
    },
    /// A thread could not be started.
    #[error("cannot start {thread}: {problem}; run fewer ranks, or give each a smaller stack")]
    Thread {
        /// Its name.
        thread: String,
        /// The system's reason.
        problem: String,
    },
    /// A tensor computation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// Out of memory, or no ledger is left.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

/// Inside candle's backward only candle's error type travels.
impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Candle(error) => error,
            other => Self::wrap(other),
        }
    }
}

/// Why a group stopped: the first thing that went wrong on any rank.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A rank returned an error.
    Error {
        /// The rank.
        rank: usize,
        /// Its error.
        cause: Cause,
    },
    /// A rank panicked.
    Panic {
        /// The rank.
        rank: usize,
        /// The panic's message.
        message: String,
    },
    /// Ranks of one group asked for different operations, shapes or dtypes at the same time.
    Disagreement {
        /// The group: ranks of the world.
        group: Vec<usize>,
        /// Which rank asked for what; the last is the one that did not fit.
        asked: Vec<(usize, Call)>,
    },
    /// Ranks wait for each other, or for a rank that has finished.
    Deadlock {
        /// Who waits for whom, in which call. A cycle, unless the last waits for a rank that has finished.
        waits: Vec<Wait>,
        /// The rank that has finished.
        finished: Option<usize>,
    },
}

/// One rank waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits: a rank of the world.
    pub rank: usize,
    /// For whom: a rank of the world.
    pub peer: usize,
    /// In which call; its own ranks count within the group.
    pub call: Call,
    /// The group of that call: ranks of the world.
    pub group: Vec<usize>,
}

impl Failure {
    /// The rank to look at first: that failed, that asked for something else, or that finished while others waited for
    /// it.
    pub fn rank(&self) -> usize {
        match self {
            Self::Error { rank, .. } | Self::Panic { rank, .. } => *rank,
            Self::Disagreement { asked, .. } => odd_one_out(asked),
            Self::Deadlock { waits, finished } => {
                finished.unwrap_or_else(|| waits.iter().map(|wait| wait.rank).min().unwrap_or(0))
            }
        }
    }
}

/// The rank whose call agrees with the fewest others; the last of these.
fn odd_one_out(asked: &[(usize, Call)]) -> usize {
    let agreeing = |call: &Call| asked.iter().filter(|(_, other)| other.agrees_with(call)).count();
    let fewest = asked.iter().map(|(_, call)| agreeing(call)).min();
    asked.iter().rev().find(|(_, call)| Some(agreeing(call)) == fewest).map_or(0, |(rank, _)| *rank)
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Error { cause, .. } => Some(cause.as_ref()),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { rank, cause } => {
                let mut text = format!("rank {rank} failed: {cause}");
                let mut source = cause.source();
                while let Some(cause) = source {
                    let words = cause.to_string();
                    // Many errors say their cause themselves.
                    if !text.contains(&words) {
                        text += &format!(": {words}");
                    }
                    source = cause.source();
                }
                f.write_str(&text)
            }
            Self::Panic { rank, message } => write!(f, "rank {rank} panicked: {message}"),
            Self::Disagreement { group, asked } => {
                write!(f, "the ranks of group {group:?} disagree: ")?;
                let all: Vec<_> = asked.iter().map(|(rank, call)| format!("rank {rank} asked for {call}")).collect();
                write!(f, "{}", all.join(", "))
            }
            Self::Deadlock { waits, finished } => {
                let all: Vec<_> = waits.iter().map(ToString::to_string).collect();
                write!(f, "deadlock: {}", all.join("; "))?;
                finished.map_or(Ok(()), |rank| {
                    write!(f, ", which has finished: every rank of a group must take part (rank {rank} left early)")
                })
            }
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, peer, call, group } = self;
        write!(f, "rank {rank} waits in {call} of group {group:?} for rank {peer}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: std::io::Error,
    }

    #[test]
    fn a_cause_that_an_error_says_itself_is_not_said_again() {
        let says = |text| {
            let source = std::io::Error::other("disk full");
            Failure::Error { rank: 3, cause: Box::new(Outer { text, source }) }.to_string()
        };
        assert_eq!(says("cannot write a: disk full"), "rank 3 failed: cannot write a: disk full");
        assert_eq!(says("cannot write a"), "rank 3 failed: cannot write a: disk full");
    }
}
