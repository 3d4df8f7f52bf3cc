//! An operation under way: where its outcome is left, and the handle that waits for it.

use super::endpoint::Seat;
use crate::pending::Ticket;
use crate::{Failure, Result};
use candle_core::Tensor;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Where a queued operation leaves its outcome.
pub(crate) struct Slot<T> {
    outcome: Mutex<Option<Result<T>>>,
    filled: Condvar,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { outcome: Mutex::new(None), filled: Condvar::new() }
    }
}

impl<T> Slot<T> {
    pub(crate) fn fill(&self, outcome: Result<T>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.filled.notify_all();
    }

    pub(crate) fn take(&self) -> Result<T> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => outcome = self.filled.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A queued operation.
pub(crate) struct Handle {
    pub(crate) slot: Arc<Slot<(Vec<Tensor>, f64)>>,
    pub(crate) seat: Arc<Seat>,
}

impl Ticket for Handle {
    type Output = Vec<Tensor>;

    fn wait(&mut self) -> Result<Vec<Tensor>> {
        // What the rank computed until now comes before its wait.
        self.seat.clock.issue();
        let (results, end) = self.slot.take()?;
        self.seat.clock.wait(end);
        Ok(results)
    }

    fn abort(&mut self) {
        let message = "it panicked with an operation under way".to_owned();
        self.seat.world.abort(Failure::Panic { rank: self.seat.rank, message });
    }
}
