//! The order of issue: the calls of one rank run one after the other.
//!
//! A blocking call runs on the thread that makes it if nothing is under way; else, and for every non-blocking call, on
//! the rank's communication thread, which is started by the first call that needs it.

use crate::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// A job runs, on either thread.
    busy: bool,
    closed: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// One rank's calls.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    name: String,
    ledger: ledger::Ledger,
}

impl Stream {
    pub(crate) fn new(name: String, ledger: ledger::Ledger) -> Self {
        Self { shared: Arc::default(), name, ledger }
    }

    /// Runs `job` on this thread now, if nothing is under way; else gives it back.
    pub(crate) fn try_run<R, J: FnOnce() -> R>(&self, job: J) -> std::result::Result<R, J> {
        {
            let mut queue = self.shared.lock();
            if queue.busy || !queue.jobs.is_empty() {
                return Err(job);
            }
            queue.busy = true;
        }
        let _idle = Idle(&self.shared);
        Ok(job())
    }

    /// Runs `job` after those before it.
    pub(crate) fn enqueue(&self, job: Job) -> Result<()> {
        let mut queue = self.shared.lock();
        if queue.thread.is_none() {
            queue.thread = Some(self.spawn()?);
        }
        queue.jobs.push_back(job);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn spawn(&self) -> Result<JoinHandle<()>> {
        let (shared, ledger) = (self.shared.clone(), self.ledger.clone());
        let work = move || {
            let _ledger = ledger.enter();
            shared.work();
        };
        let started = Builder::new().name(self.name.clone()).spawn(work);
        started.map_err(|error| Error::Thread { thread: self.name.clone(), problem: error.to_string() })
    }

    /// Runs what is queued and ends the communication thread.
    pub(crate) fn close(&self) {
        let thread = {
            let mut queue = self.shared.lock();
            queue.closed = true;
            self.shared.changed.notify_all();
            queue.thread.take()
        };
        if let Some(thread) = thread {
            // Jobs catch their panics.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            let next = if queue.busy { None } else { queue.jobs.pop_front() };
            if let Some(job) = next {
                queue.busy = true;
                drop(queue);
                {
                    let _idle = Idle(self);
                    job();
                }
                queue = self.lock();
            } else if queue.closed && queue.jobs.is_empty() {
                return;
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The job is over, also by a panic.
struct Idle<'a>(&'a Shared);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.busy = false;
        if !queue.jobs.is_empty() {
            self.0.changed.notify_all();
        }
    }
}
