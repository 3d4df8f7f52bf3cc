//! What is computed: every operation of the decoder tells an [`Observer`] its FLOPs and bytes.

use crate::{Error, Kind, Ledger, scope};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Which direction an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Computing outputs from inputs.
    Forward,
    /// Backward: the gradient of an operation's input.
    InputGradient,
    /// Backward: the gradient of a weight.
    WeightGradient,
}

/// One operation, as it was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it is: `linear`, `rms_norm`, `attention`, …
    pub name: &'static str,
    /// Which one: the weight's name (`model.layers.0.self_attn.q_proj.weight`), empty for operations without weights.
    pub label: Arc<str>,
    /// Direction.
    pub phase: Phase,
    /// Shape of the result.
    pub shape: Vec<usize>,
    /// Floating-point operations; a multiply-add counts as two. Of `linear`, `attention` and `head_loss` those of their matrix
    /// products only (no softmax), so that they equal the usual formulas; element-wise operations count their arithmetic.
    pub flops: u64,
    /// Bytes read and written: operands and result once each.
    pub bytes: u64,
}

/// Hears of every operation, after it was executed.
///
/// The roofline clock, FLOP counts, traces and the memory limit are observers.
pub trait Observer: Send + Sync {
    /// Called after `operation` was executed.
    ///
    /// # Errors
    /// An observer may object (out of memory); the computation then stops with its error.
    fn observe(&self, operation: &Operation) -> Result<(), Error>;
}

/// The observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Observer for Ignore {
    fn observe(&self, _: &Operation) -> Result<(), Error> {
        Ok(())
    }
}

/// The observer that adds up.
#[derive(Debug, Default)]
pub struct Counts {
    flops: AtomicU64,
    bytes: AtomicU64,
    operations: AtomicU64,
}

impl Counts {
    /// FLOPs so far.
    pub fn flops(&self) -> u64 {
        self.flops.load(Ordering::Relaxed)
    }

    /// Bytes read and written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
}

impl Observer for Counts {
    fn observe(&self, operation: &Operation) -> Result<(), Error> {
        self.flops.fetch_add(operation.flops, Ordering::Relaxed);
        self.bytes.fetch_add(operation.bytes, Ordering::Relaxed);
        self.operations.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The observer that keeps every operation, in the order in which they were executed.
#[derive(Debug, Default)]
pub struct Record {
    operations: Mutex<Vec<Operation>>,
}

impl Record {
    /// The operations so far.
    pub fn operations(&self) -> Vec<Operation> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The operations so far; the record starts again.
    pub fn take(&self) -> Vec<Operation> {
        std::mem::take(&mut *self.operations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Record {
    fn observe(&self, operation: &Operation) -> Result<(), Error> {
        // The record is the host's: the computation it watches must not pay for it.
        let _host = scope(Kind::Host);
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation.clone());
        Ok(())
    }
}

/// The observer that objects when the current thread's ledger exceeds its limit: [`Ledger::check`] after each operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit;

impl Observer for Limit {
    fn observe(&self, _: &Operation) -> Result<(), Error> {
        Ledger::of_this_thread().check()
    }
}

/// Several observers as one. Each hears of every operation, in order, also after one of them objected; the first objection is
/// returned.
#[derive(Clone, Default)]
pub struct All(pub Vec<Arc<dyn Observer>>);

impl Observer for All {
    fn observe(&self, operation: &Operation) -> Result<(), Error> {
        let mut outcome = Ok(());
        for observer in &self.0 {
            let heard = observer.observe(operation);
            outcome = outcome.and(heard);
        }
        outcome
    }
}
