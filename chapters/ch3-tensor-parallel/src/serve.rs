//! A rank at work on one batch without training: generating, scoring, one backward.
//!
//! Every rank computes every token with its part of each layer, and has the same logits to the last bit: all choose the same token, with
//! the same random numbers, and stop together.

use crate::{Result, TensorParallel};
use decoder::generation::{Generated, Options, generate};
use decoder::{Context, Decoder};
use lab::batch::Batch;
use lab::score::{Score, score};
use ledger::Observer;
use std::ops::ControlFlow;
use std::sync::Arc;
use training::Named;
use training::accumulation::Loss;

impl TensorParallel {
    /// A context for generating and scoring.
    pub fn inference(&self, observer: Arc<dyn Observer>) -> Context {
        Context::inference().with_split(self.split()).with_observer(observer)
    }

    /// A context for training.
    pub fn training(&self, observer: Arc<dyn Observer>) -> Context {
        Context::inference().with_split(self.training_split()).with_observer(observer)
    }

    /// Continues `prompts`; every rank returns the same ids.
    ///
    /// # Errors
    /// As [`generate`].
    pub fn generate(
        &self,
        model: &Decoder,
        observer: Arc<dyn Observer>,
        prompts: &[Vec<u32>],
        options: &Options,
    ) -> Result<Generated> {
        // No rank may break off alone: the others would wait for it.
        let go_on = |_, _| Ok(ControlFlow::Continue(()));
        Ok(generate(model, &self.inference(observer), prompts, options, go_on)?)
    }

    /// Scores `batch`; every rank returns the same.
    ///
    /// # Errors
    /// As [`score`].
    pub fn score(&self, model: &Decoder, observer: Arc<dyn Observer>, batch: &Batch) -> Result<Score> {
        Ok(score(model, &self.inference(observer), batch)?)
    }

    /// Loss and full gradients of `batch`, on every rank.
    ///
    /// # Errors
    /// The computation failed, here or on another rank.
    pub fn gradients(&self, model: &Decoder, observer: Arc<dyn Observer>, batch: &Batch) -> Result<(Loss, Named)> {
        let (loss, mut gradients) =
            lab::gradients::contribution(model, &self.training(observer), batch, batch.targets())?;
        self.synchronise(&mut gradients)?;
        Ok((loss, self.gather(&gradients)?))
    }
}
