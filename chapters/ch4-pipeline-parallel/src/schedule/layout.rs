//! Which chunk of the model is on which stage: the way of a micro-batch.

use serde::{Deserialize, Serialize};

/// How the chunks of the model lie on the stages. A *position* counts the chunks in the order of the forward.
///
/// ```text
///                 stage 0 1 2 3                 stage 0 1 2 3
/// straight              0 1 2 3    V                  0 1 2 3
/// interleaved, 2        0 1 2 3                       7 6 5 4
///                       4 5 6 7    bidirectional      0 1 2 3   one half of the micro-batches
///                                                     3 2 1 0   the other, through a second copy
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// One chunk per stage.
    Straight,
    /// Several chunks per stage, around and around (Narayanan et al., 2021).
    Interleaved {
        /// Chunks per stage.
        chunks: usize,
    },
    /// Two chunks per stage, down and back up (Qi et al., 2024).
    V,
    /// Every stage holds two positions, and the model is there twice: micro-batches of the second half enter at the last
    /// stage (DeepSeek-V3).
    Bidirectional,
}

impl Layout {
    /// Chunks that a stage holds.
    pub fn chunks(self) -> usize {
        match self {
            Self::Straight => 1,
            Self::Interleaved { chunks } => chunks,
            Self::V | Self::Bidirectional => 2,
        }
    }

    /// Chunks that the model is cut into.
    pub fn positions(self, stages: usize) -> usize {
        match self {
            Self::Bidirectional => stages,
            _ => stages * self.chunks(),
        }
    }

    /// Where in the model a stage's chunk is.
    pub fn position(self, stages: usize, stage: usize, chunk: usize) -> usize {
        match self {
            Self::Straight => stage,
            Self::Interleaved { .. } => chunk * stages + stage,
            Self::V if chunk == 0 => stage,
            Self::V => 2 * stages - 1 - stage,
            Self::Bidirectional if chunk == 0 => stage,
            Self::Bidirectional => stages - 1 - stage,
        }
    }

    /// The stage and its chunk that do `position` for the micro-batches that go through chunk `from` at another one.
    pub fn at(self, stages: usize, position: usize, from: usize) -> (usize, usize) {
        match self {
            Self::Straight => (position, 0),
            Self::Interleaved { .. } => (position % stages, position / stages),
            Self::V if position < stages => (position, 0),
            Self::V => (2 * stages - 1 - position, 1),
            Self::Bidirectional if from == 0 => (position, 0),
            Self::Bidirectional => (stages - 1 - position, 1),
        }
    }

    /// Whether `micro_batch` of `micro_batches` goes through chunk `chunk` of a stage.
    pub fn passes(self, micro_batch: usize, micro_batches: usize, chunk: usize) -> bool {
        match self {
            Self::Bidirectional => (micro_batch < micro_batches.div_ceil(2)) == (chunk == 0),
            _ => chunk < self.chunks(),
        }
    }
}
