//! A pipeline that generates and scores: forwards only.
//!
//! A token must pass all stages before the next one of its sequence can start, so a single sequence keeps one stage busy and the others
//! waiting. With as many groups of sequences in flight as there are stages, every stage always has one to work on ([`generate()`]).
//! Each stage keeps keys and values of its own layers: that is the KV cache cut by layer.

mod generate;
mod group;
mod score;

pub use generate::{Served, generate};
pub use score::score;

use crate::stages::Stages;
use collective::Communicator;
use decoder::{Context, Decoder};

/// A stage on its rank.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// The cut, one chunk per stage.
    pub stages: &'a Stages,
    /// The pipeline's ranks, in the order of the stages.
    pub communicator: &'a dyn Communicator,
    /// The layers that are here.
    pub model: &'a Decoder,
    /// How the rest of the model is cut, and who hears of its operations.
    pub context: &'a Context,
}

impl Server<'_> {
    fn number(&self) -> usize {
        self.communicator.rank()
    }

    fn size(&self) -> usize {
        self.communicator.size()
    }

    fn is_last(&self) -> bool {
        self.number() + 1 == self.size()
    }
}
