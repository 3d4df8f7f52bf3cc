//! The handle of a non-blocking operation.

use crate::Result;
use std::fmt;

/// An operation that an engine is busy with.
pub trait Ticket: Send {
    /// What it returns.
    type Output;

    /// Blocks until it is done. Called once.
    ///
    /// # Errors
    /// What the operation fails with.
    fn wait(&mut self) -> Result<Self::Output>;

    /// Ends the whole group, because this rank panics and nobody will wait for the operation.
    fn abort(&mut self);
}

/// An operation that was begun. [`Pending::wait`] for it; dropping it waits too, but loses its error. A drop during a
/// panic does not wait: it ends the group, so that the other ranks stop.
#[must_use = "an operation is over when it was waited for"]
pub struct Pending<T> {
    ticket: Option<Box<dyn Ticket<Output = T>>>,
}

impl<T> Pending<T> {
    /// The handle of `ticket`.
    pub fn new(ticket: impl Ticket<Output = T> + 'static) -> Self {
        Self { ticket: Some(Box::new(ticket)) }
    }

    /// Blocks until the operation is done.
    ///
    /// # Errors
    /// What the operation fails with.
    pub fn wait(mut self) -> Result<T> {
        match self.ticket.take() {
            Some(mut ticket) => ticket.wait(),
            None => Err(candle_core::Error::Msg("an operation was waited for twice".to_owned()).into()),
        }
    }

    /// Lets go of the operation without waiting for it: for a rank that is about to return an error, which ends the group. Waiting
    /// would look like a deadlock, and hide that error.
    pub fn abandon(mut self) {
        drop(self.ticket.take());
    }
}

impl<T: 'static> Pending<T> {
    pub(crate) fn map<U: 'static>(mut self, then: fn(T) -> Result<U>) -> Pending<U> {
        Pending { ticket: self.ticket.take().map(|ticket| Box::new(Mapped { ticket, then }) as _) }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some(mut ticket) = self.ticket.take() {
            if std::thread::panicking() {
                ticket.abort();
            } else {
                // A failure of the group is seen again by the next call, and by the launcher.
                let _ = ticket.wait();
            }
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

struct Mapped<T, U> {
    ticket: Box<dyn Ticket<Output = T>>,
    then: fn(T) -> Result<U>,
}

impl<T, U> Ticket for Mapped<T, U> {
    type Output = U;

    fn wait(&mut self) -> Result<U> {
        self.ticket.wait().and_then(self.then)
    }

    fn abort(&mut self) {
        self.ticket.abort();
    }
}
