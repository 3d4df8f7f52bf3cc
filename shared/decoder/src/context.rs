//! What a forward is done with: how the model is cut, who hears of the work, and where gradients go.

use crate::error::Result;
use crate::ops::GradientSink;
use crate::split::Split;
use ledger::{Ignore, Observer, Operation, Phase};
use std::sync::Arc;

/// Handed through every operation of a forward.
#[derive(Clone)]
pub struct Context {
    /// How the model is cut; [`Split::whole`] on one device.
    pub split: Split,
    /// Hears of every operation.
    pub observer: Arc<dyn Observer>,
    /// Receives gradients; `None` in inference, where no graph is built.
    pub sink: Option<Arc<dyn GradientSink>>,
    unnamed: Arc<str>,
}

impl Context {
    /// One device, no gradients, nobody listening.
    pub fn inference() -> Self {
        Self { split: Split::whole(), observer: Arc::new(Ignore), sink: None, unnamed: Arc::from("") }
    }

    /// One device, gradients to `sink`.
    pub fn training(sink: Arc<dyn GradientSink>) -> Self {
        Self { sink: Some(sink), ..Self::inference() }
    }

    /// The same, with another observer.
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// The same, cut differently.
    pub fn with_split(self, split: Split) -> Self {
        Self { split, ..self }
    }

    /// Label of operations without a weight.
    pub(crate) fn unnamed(&self) -> &Arc<str> {
        &self.unnamed
    }

    /// Tells the observer of an operation that was executed. For implementations of split points.
    ///
    /// # Errors
    /// The observer objects.
    pub fn observe(
        &self,
        name: &'static str,
        label: &Arc<str>,
        phase: Phase,
        shape: &[usize],
        flops: u64,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation { name, label: label.clone(), phase, shape: shape.to_vec(), flops, bytes };
        Ok(self.observer.observe(&operation)?)
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("split", &self.split).field("training", &self.sink.is_some()).finish()
    }
}
