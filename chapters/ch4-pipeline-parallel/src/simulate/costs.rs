//! What an action takes, and what a message weighs.

use crate::schedule::{Action, Work};

/// Times and sizes of a pipeline's work.
pub trait Costs {
    /// Seconds of `action` on the chunk of the model at `position`.
    fn seconds(&self, position: usize, action: &Action) -> f64;

    /// Seconds of several actions that run together, of which `alone` gives the time of each: by default their sum.
    fn together(&self, alone: &dyn Fn(&Action) -> f64, actions: &[Action]) -> f64 {
        actions.iter().map(alone).sum()
    }

    /// Bytes of one message of `micro_batch`: activations, or their gradient.
    fn bytes(&self, _micro_batch: usize) -> u64 {
        0
    }
}

/// The same times on every stage. A stage's chunks share them equally.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniform {
    /// Forward of one micro-batch through all chunks of a stage, in seconds.
    pub forward: f64,
    /// Its input gradient.
    pub input_gradient: f64,
    /// Its weight gradient.
    pub weight_gradient: f64,
    /// A forward and a whole backward that run together (DualPipe); `None`: their sum.
    pub together: Option<f64>,
    /// Chunks per stage that a micro-batch goes through.
    pub chunks: usize,
}

impl Uniform {
    /// One chunk per stage, nothing together.
    pub fn new(forward: f64, input_gradient: f64, weight_gradient: f64) -> Self {
        Self { forward, input_gradient, weight_gradient, together: None, chunks: 1 }
    }

    /// The same times per stage, shared by `chunks` chunks.
    pub fn over(self, chunks: usize) -> Self {
        Self { chunks: chunks.max(1), ..self }
    }

    /// Forward and backward of one micro-batch on one stage.
    pub fn total(&self) -> f64 {
        self.forward + self.input_gradient + self.weight_gradient
    }
}

impl Costs for Uniform {
    fn seconds(&self, _: usize, action: &Action) -> f64 {
        let seconds = match action.work {
            Work::Forward => self.forward,
            Work::Backward => self.input_gradient + self.weight_gradient,
            Work::InputGradient => self.input_gradient,
            Work::WeightGradient => self.weight_gradient,
        };
        seconds / self.chunks as f64
    }

    fn together(&self, alone: &dyn Fn(&Action) -> f64, actions: &[Action]) -> f64 {
        self.together.unwrap_or_else(|| actions.iter().map(alone).sum())
    }
}
