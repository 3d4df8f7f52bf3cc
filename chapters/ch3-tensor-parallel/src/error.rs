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
    Training(#[from] training::Error),
    /// A model or batch is not usable.
    #[error(transparent)]
    Decoder(#[from] decoder::Error),
    /// A score, a gradient, a flag, a layout.
    #[error(transparent)]
    Lab(#[from] lab::Error),
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

impl Error {
    /// Whether the virtual device was too small.
    pub fn is_out_of_memory(&self) -> bool {
        use ledger::Error::OutOfMemory;
        let inner = match self {
            Self::Training(training::Error::Decoder(error)) | Self::Decoder(error) => match error {
                decoder::Error::Ledger(error) => error,
                _ => return false,
            },
            Self::Training(training::Error::Ledger(error)) => error,
            Self::Collective(collective::Error::Ledger(error)) => error,
            Self::Collective(collective::Error::Failed(failure)) => return is_out_of_memory(failure),
            _ => return false,
        };
        matches!(inner, OutOfMemory { .. })
    }
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
