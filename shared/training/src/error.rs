//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong between a corpus and a trained model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write`, …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A number or option is not usable.
    #[error("{name} = {found}: {expected}")]
    Setting {
        /// The setting, as the user knows it.
        name: &'static str,
        /// The value.
        found: String,
        /// What would be legal.
        expected: String,
    },
    /// The corpus cannot be trained on.
    #[error("corpus: {problem}")]
    Corpus {
        /// What was found and what to do.
        problem: String,
    },
    /// A parameter, its gradient and its optimiser state do not belong together.
    #[error("{what} {name}: found {found}, expected {expected}")]
    Mismatch {
        /// `gradient of`, `optimiser state of`, …
        what: &'static str,
        /// Name in the checkpoint.
        name: String,
        /// What is there.
        found: String,
        /// What would fit.
        expected: String,
    },
    /// The loss or a gradient is NaN or infinite.
    #[error("step {step}: {name} has {value}; lower the learning rate, or clip the gradient")]
    NotFinite {
        /// Step, counted from 0.
        step: u64,
        /// `the loss`, or the first tensor, by name, that is not finite.
        name: String,
        /// `NaN` or `an infinity`.
        value: &'static str,
    },
    /// After a backward, a parameter's gradient is not complete.
    #[error("the gradient of {name} is incomplete: {arrived} of {expected} contributions arrived")]
    Gradient {
        /// Name in the checkpoint.
        name: String,
        /// Contributions that came.
        arrived: usize,
        /// Contributions that were expected: uses in the model times micro-batches.
        expected: usize,
    },
    /// One checkpoint is not usable: half-written, changed on disk, or of another version.
    #[error("checkpoint {}: {problem}", path.display())]
    Checkpoint {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// What was found and what to do.
        problem: String,
    },
    /// The checkpoint is of a run with another configuration.
    #[error("checkpoint {} is of another run: {}; resume with its settings, or choose another folder", path.display(), differences.join("; "))]
    OtherConfig {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Each setting that differs: `optimiser.beta2: checkpoint 0.95, this run 0.999`.
        differences: Vec<String>,
    },
    /// The file of metrics is not one that this run wrote.
    #[error("{} line {line}: {problem}", path.display())]
    Metrics {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What was found and what to do.
        problem: String,
    },
    /// Another run has the folder.
    #[error("another run is writing {}: wait for its end, stop it, or choose another folder", path.display())]
    Occupied {
        /// The file that it holds.
        path: PathBuf,
    },
    /// Ctrl-C cannot be caught.
    #[error("cannot catch Ctrl-C: {0}")]
    Interrupt(#[from] ctrlc::Error),
    /// A tensor computation failed.
    #[error(transparent)]
    Candle(candle_core::Error),
    /// The model objected.
    #[error(transparent)]
    Decoder(#[from] decoder::Error),
    /// An observer objected: out of memory.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

/// Inside candle's backward every error travels as candle's: an observer's objection comes out as what it was.
impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        match decoder::Error::from(error) {
            decoder::Error::Candle(error) => Self::Candle(error),
            decoder::Error::Ledger(error) => Self::Ledger(error),
            other => Self::Decoder(other),
        }
    }
}

impl Error {
    /// For `map_err`: an i/o error with what was being done to which file.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// A setting that is not usable.
    pub(crate) fn setting(name: &'static str, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Setting { name, found: found.to_string(), expected: expected.into() }
    }
}
