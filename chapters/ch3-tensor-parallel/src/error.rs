//! The one error type of this crate's library.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong on a rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another rank failed, or a collective was refused.
    #[error(transparent)]
    Collective(#[from] collective::Error),
    /// The rank's own computation failed.
    #[error(transparent)]
    Training(Box<training::Error>),
    /// A model or batch is not usable.
    #[error(transparent)]
    Decoder(#[from] decoder::Error),
    /// A score, a gradient, a flag, a layout.
    #[error(transparent)]
    Lab(Box<lab::Error>),
    /// A tensor computation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A gradient or weight that the model does not have.
    #[error("{name}: the model has no weight of this name")]
    Unknown {
        /// The name.
        name: String,
    },
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

impl Error {
    /// Whether the virtual device was too small.
    pub fn is_out_of_memory(&self) -> bool {
        use ledger::Error::OutOfMemory;
        match self {
            Self::Training(error) => match &**error {
                training::Error::Ledger(OutOfMemory { .. }) => true,
                training::Error::Decoder(error) => is_decoders(error),
                _ => false,
            },
            Self::Decoder(error) => is_decoders(error),
            Self::Collective(collective::Error::Ledger(OutOfMemory { .. })) => true,
            Self::Collective(collective::Error::Failed(failure)) => is_out_of_memory(failure),
            _ => false,
        }
    }
}

fn is_decoders(error: &decoder::Error) -> bool {
    matches!(error, decoder::Error::Ledger(ledger::Error::OutOfMemory { .. }))
}

/// Whether the first rank that failed did so because its virtual device was too small.
fn is_out_of_memory(failure: &collective::Failure) -> bool {
    match failure {
        collective::Failure::Error { cause, .. } => cause.downcast_ref().is_some_and(Error::is_out_of_memory),
        _ => false,
    }
}

/// What the decoder's split points return: a failed collective travels as candle's error, as it does inside a backward.
pub(crate) fn in_decoder(error: collective::Error) -> decoder::Error {
    candle_core::Error::from(error).into()
}
