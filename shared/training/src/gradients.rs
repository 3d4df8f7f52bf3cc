//! The plain gradient sink: computes every contribution at once, adds them up by name, and knows when a name is complete.

use crate::Named;
use crate::error::{Error, Result};
use candle_core::{DType, Tensor};
use decoder::Decoder;
use decoder::model::activation_dtype;
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
    /// For the shape of zeros, and the type.
    parameter: Tensor,
    expected: usize,
    arrived: usize,
    sum: Option<Tensor>,
}

impl Gradients {
    /// For every parameter that `model` holds, over `micro_batches` backwards.
    pub fn expected(model: &Decoder, micro_batches: usize) -> Self {
        let entries = model.parameters().into_iter().map(|(parameter, uses)| {
            let (name, parameter) = (parameter.name().clone(), parameter.value().clone());
            (name, Entry { parameter, expected: uses * micro_batches, arrived: 0, sum: None })
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
                _ if entry.expected == 0 => Ok((name, entry.zeros()?)),
                _ => Err(Error::Gradient { name: name.to_string(), arrived: entry.arrived, expected: entry.expected }),
            })
            .collect()
    }
}

impl GradientSink for Gradients {
    fn contribute(&self, name: &Arc<str>, gradient: WeightGradient) -> decoder::Result<()> {
        // Taken out and put back, so that the lock is not held while a gradient is computed.
        let (sum, widen) = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = entries.get_mut(name).ok_or_else(|| unexpected(name, "a parameter of this model"))?;
            if entry.arrived == entry.expected {
                return Err(unexpected(name, &format!("{} contributions", entry.expected)));
            }
            entry.arrived += 1;
            (entry.sum.take(), entry.expected > 1 && entry.is_low())
        };
        let _kind = ledger::scope(ledger::Kind::Gradients);
        let sum = add(gradient, sum, widen)?;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(name) {
            entry.sum = Some(sum);
        }
        Ok(())
    }
}

impl Entry {
    /// Type of one contribution.
    fn dtype(&self) -> DType {
        activation_dtype(self.parameter.dtype(), self.parameter.device())
    }

    fn is_low(&self) -> bool {
        matches!(self.dtype(), DType::BF16 | DType::F16)
    }

    fn zeros(&self) -> Result<Tensor> {
        let _kind = ledger::scope(ledger::Kind::Gradients);
        Ok(Tensor::zeros(self.parameter.shape(), self.dtype(), self.parameter.device())?)
    }
}

/// Contributions of low precision are widened before they are added, if `widen` says so.
fn add(gradient: WeightGradient, sum: Option<Tensor>, widen: bool) -> decoder::Result<Tensor> {
    if !widen {
        return gradient.accumulate(sum);
    }
    let one = gradient.accumulate(None)?.to_dtype(DType::F32)?;
    match sum {
        Some(sum) => Ok((sum + one)?),
        None => Ok(one),
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
