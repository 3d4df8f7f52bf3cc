//! A gradient sink that can put weight gradients off.

use crate::Result;
use decoder::ops::{GradientSink, WeightGradient};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use training::Named;
use training::gradients::Gradients;

/// Weight gradients that were put off: what their computation needs, and for which parameter.
pub(super) type Later = Vec<(Arc<str>, WeightGradient)>;

/// Hands contributions on to the sums, or keeps them while told to.
pub(super) struct Deferred {
    sums: Gradients,
    kept: Mutex<Option<Later>>,
}

impl Deferred {
    pub(super) fn new(sums: Gradients) -> Self {
        Self { sums, kept: Mutex::new(None) }
    }

    /// Runs `backward`, and returns the weight gradients that it would have computed.
    pub(super) fn put_off<T>(&self, backward: impl FnOnce() -> Result<T>) -> Result<(T, Later)> {
        *self.lock() = Some(Vec::new());
        let outcome = backward();
        // Also after an error: what was kept holds this sink, which would hold it in turn.
        let later = self.lock().take().unwrap_or_default();
        Ok((outcome?, later))
    }

    /// Computes what was put off.
    pub(super) fn catch_up(&self, later: Later) -> Result<()> {
        let _kind = ledger::scope(ledger::Kind::Activations);
        later.into_iter().try_for_each(|(name, gradient)| Ok(self.sums.contribute(&name, gradient)?))
    }

    /// All gradients.
    pub(super) fn finish(&self) -> Result<Named> {
        Ok(self.sums.finish()?)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Later>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GradientSink for Deferred {
    fn contribute(&self, name: &Arc<str>, gradient: WeightGradient) -> decoder::Result<()> {
        if let Some(kept) = self.lock().as_mut() {
            kept.push((name.clone(), gradient));
            return Ok(());
        }
        self.sums.contribute(name, gradient)
    }
}
