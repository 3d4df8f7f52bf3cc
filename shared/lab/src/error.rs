//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong between the command line and a shown figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A flag's value is not usable; a program ends with exit code 2.
    #[error("{flag} {found}: {expected}")]
    Flag {
        /// The flag, as the user typed it: `--device`.
        flag: &'static str,
        /// The value.
        found: String,
        /// What would be legal, and what to do.
        expected: String,
    },
    /// A device cannot be used.
    #[error("device {device}: {problem}")]
    Device {
        /// `cuda:1`.
        device: String,
        /// What happened and what to do.
        problem: String,
    },
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `write`, `create the folder`, …
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// An exercise's function cannot be found.
    #[error("{}: fn {function}: {problem}", path.display())]
    Stub {
        /// The file.
        path: PathBuf,
        /// The function.
        function: String,
        /// What was found and what to do.
        problem: String,
    },
    /// A chart cannot be drawn from what it was given.
    #[error("plot {title:?}: {problem}")]
    Plot {
        /// Title of the chart.
        title: String,
        /// What was found and what is expected.
        problem: String,
    },
    /// A trace has a span that is not a span.
    #[error(
        "trace: span {name:?} starts at {start} s and lasts {duration} s: both must be finite, the duration not negative"
    )]
    Span {
        /// The span.
        name: String,
        /// Seconds.
        start: f64,
        /// Seconds.
        duration: f64,
    },
    /// Threads cannot be set up as asked.
    #[error("{threads} threads: {problem}")]
    Threads {
        /// How many were asked for.
        threads: String,
        /// What happened and what to do.
        problem: String,
    },
    /// A notebook's first cell is wrong.
    #[error("notebook: {problem}")]
    Notebook {
        /// What was found, what it leads to and what to write.
        problem: String,
    },
    /// A model cannot be found, described or read.
    #[error(transparent)]
    Decoder(#[from] decoder::Error),
    /// A failure that was asked for.
    #[error("step {step} fails, as --inject-failure {rank}:{step} asks")]
    Injected {
        /// The rank.
        rank: usize,
        /// The step, from 0.
        step: u64,
    },
    /// Ranks could not be started, or one of them failed.
    #[error(transparent)]
    Collective(#[from] collective::Error),
    /// A backward failed, or a gradient is missing.
    #[error(transparent)]
    Training(Box<training::Error>),
    /// A tensor computation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A memory limit, a size in bytes.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

impl From<training::Error> for Error {
    /// Boxed: it is the largest by far, and every result would be as large.
    fn from(error: training::Error) -> Self {
        Self::Training(Box::new(error))
    }
}

impl Error {
    /// For `map_err`: an i/o error with what was being done to which file.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}

/// Writes a file whose folder may not exist yet.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    create_parent(path)?;
    std::fs::write(path, content).map_err(Error::file("write", path))
}

/// Creates the folder that `path` is to stand in.
pub(crate) fn create_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::fs::create_dir_all(folder).map_err(Error::file("create the folder", folder))
        }
        _ => Ok(()),
    }
}
