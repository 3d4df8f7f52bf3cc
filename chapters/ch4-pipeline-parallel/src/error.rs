//! What a pipeline can object to.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can be wrong with a schedule, a cut, or a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A schedule cannot be made for these numbers.
    #[error("{kind} with {stages} stages and {micro_batches} micro-batches: {problem}")]
    Kind {
        /// Name of the schedule.
        kind: &'static str,
        /// Stages.
        stages: usize,
        /// Micro-batches.
        micro_batches: usize,
        /// What is wrong, and what would be legal.
        problem: String,
    },
    /// A schedule that cannot run, or computes something else than the gradient.
    #[error("the schedule is invalid: {0}")]
    Schedule(String),
    /// A file with a schedule.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The layers cannot be dealt out as asked.
    #[error("{layers} layers on {stages} stages of {chunks} chunks: {problem}")]
    Stages {
        /// Layers of the model.
        layers: usize,
        /// Stages.
        stages: usize,
        /// Chunks per stage.
        chunks: usize,
        /// What is wrong, and what would be legal.
        problem: String,
    },
    /// Numbers that do not fit together.
    #[error("{name} = {found}: {expected}")]
    Setting {
        /// What was set.
        name: &'static str,
        /// To what.
        found: String,
        /// What would be legal.
        expected: String,
    },
    /// A collective operation failed, or the group did.
    #[error(transparent)]
    Collective(#[from] collective::Error),
    /// The model.
    #[error(transparent)]
    Decoder(#[from] decoder::Error),
    /// Training.
    #[error(transparent)]
    Training(Box<training::Error>),
    /// What programs share.
    #[error(transparent)]
    Lab(Box<lab::Error>),
    /// A tensor computation.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl From<training::Error> for Error {
    fn from(error: training::Error) -> Self {
        Self::Training(Box::new(error))
    }
}

impl From<lab::Error> for Error {
    fn from(error: lab::Error) -> Self {
        Self::Lab(Box::new(error))
    }
}
