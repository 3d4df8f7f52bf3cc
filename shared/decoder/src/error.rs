//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong between a folder of weights and a generated token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `open`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A setting of `config.json` (or GGUF metadata) is missing, contradictory or not supported.
    #[error("{origin}: {key} = {found}: {expected}")]
    Config {
        /// The file the setting stands in.
        origin: String,
        /// The key, or the keys that contradict each other.
        key: String,
        /// The value found, `absent` if there is none.
        found: String,
        /// What would be legal, and what to do.
        expected: String,
    },
    /// The folder or file of weights as a whole is not usable.
    #[error("{origin}: {problem}")]
    Model {
        /// Folder, file or hub id.
        origin: String,
        /// What was found and what to do.
        problem: String,
    },
    /// One weight is missing or does not have the shape or type that the config asks for.
    #[error("{origin}: weight {name}: found {found}, expected {expected}")]
    Weight {
        /// The file.
        origin: String,
        /// The weight's name in the checkpoint.
        name: String,
        /// What is there.
        found: String,
        /// What the config asks for.
        expected: String,
    },
    /// The tokenizer cannot be loaded, or text cannot be turned into ids or back.
    #[error("tokenizer: {problem}")]
    Tokenizer {
        /// What was found and what to do.
        problem: String,
    },
    /// The logits of a position allow no choice of a token.
    #[error("logits: {problem}")]
    Logits {
        /// How many are what, and where.
        problem: String,
    },
    /// A sequence would grow past the length that the model or its cache has room for.
    #[error("the context is full: {needed} tokens are needed, {available} fit; shorten the prompt or --sample-len")]
    ContextLength {
        /// Tokens of the longest sequence.
        needed: usize,
        /// Tokens that fit.
        available: usize,
    },
    /// A number or option given by the user is not usable.
    #[error("{name} = {found}: {expected}")]
    Setting {
        /// The setting, as the user knows it.
        name: &'static str,
        /// The value.
        found: String,
        /// What would be legal.
        expected: String,
    },
    /// Downloading from the hub failed, or is not possible.
    #[error("{id}: {problem}")]
    Hub {
        /// Hub id of the model.
        id: String,
        /// What happened and what to do.
        problem: String,
    },
    /// A tensor computation failed.
    #[error(transparent)]
    Candle(candle_core::Error),
    /// An observer objected: out of memory.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

impl Error {
    /// For `map_err`: an i/o error with what was being done to which file.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}

/// Inside candle's backward only candle's error type travels; [`Error::from`] gets the original back.
///
/// It travels as an i/o error because that is the one that holds any error, shows it as it is and returns it unchanged.
impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Candle(error) => error,
            other => Self::Io(std::io::Error::other(other)),
        }
    }
}

/// The error that was put into candle's by [`candle_core::Error::from`], or candle's own.
impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        match error {
            candle_core::Error::Io(error) => match error.downcast::<Self>() {
                Ok(original) => original,
                Err(error) => Self::Candle(error.into()),
            },
            other => Self::Candle(other),
        }
    }
}
