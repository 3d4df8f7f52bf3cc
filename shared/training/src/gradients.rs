//! The plain gradient sink: computes every contribution at once, adds them up by name, and knows when a name is complete.

use crate::Named;
use crate::error::{Error, Result};
use candle_core::Tensor;
use decoder::Decoder;
use decoder::ops::{GradientSink, WeightGradient};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Sums of gradients by parameter name.
///
/// A tied embedding contributes twice per backward, and every micro-batch contributes again; a name is complete when all
/// its contributions have arrived. [`Gradients::finish`] fails if one is missing: a parameter without a gradient is an error,
/// never silently skipped.
#[derive(Debug)]
pub struct Gradients {
    entries: Mutex<BTreeMap<Arc<str>, Entry>>,
}

#[derive(Debug)]
struct Entry {
    expected: usize,
    arrived: usize,
    sum: Option<Tensor>,
}

impl Gradients {
    /// For every parameter that `model` holds, over `micro_batches` backwards.
    pub fn expected(model: &Decoder, micro_batches: usize) -> Self {
        let entries = model.parameters().into_iter().map(|(parameter, uses)| {
            let entry = Entry { expected: uses * micro_batches, arrived: 0, sum: None };
            (parameter.name().clone(), entry)
        });
        Self { entries: Mutex::new(entries.collect()) }
    }

    /// All gradients.
    ///
    /// # Errors
    /// [`Error::Gradient`] names a parameter whose contributions have not all arrived.
    pub fn finish(&self) -> Result<Named> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *entries)
            .into_iter()
            .map(|(name, entry)| match entry.sum {
                Some(sum) if entry.arrived == entry.expected => Ok((name, sum)),
                _ => Err(Error::Gradient { name: name.to_string(), arrived: entry.arrived, expected: entry.expected }),
            })
            .collect()
    }
}

impl GradientSink for Gradients {
    fn contribute(&self, name: &Arc<str>, gradient: WeightGradient) -> decoder::Result<()> {
        // Taken out and put back, so that the lock is not held while a gradient is computed.
        let sum = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = entries.get_mut(name).ok_or_else(|| unexpected(name, "a parameter of this model"))?;
            if entry.arrived == entry.expected {
                return Err(unexpected(name, &format!("{} contributions", entry.expected)));
            }
            entry.arrived += 1;
            entry.sum.take()
        };
        let _kind = ledger::scope(ledger::Kind::Gradients);
        let sum = gradient.accumulate(sum)?;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(name) {
            entry.sum = Some(sum);
        }
        Ok(())
    }
}

fn unexpected(name: &str, expected: &str) -> decoder::Error {
    decoder::Error::Weight {
        origin: "gradients".into(),
        name: name.into(),
        found: "one more contribution".into(),
        expected: expected.into(),
    }
}
