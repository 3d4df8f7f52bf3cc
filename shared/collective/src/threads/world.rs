//! What the ranks of one launch share: who is doing what, and why the group failed if it did.
//!
//! One lock guards it all. A rank is [`Activity::Computing`], [`Activity::Waiting`] in exactly one call (its calls run
//! one after the other), or [`Activity::Finished`]. That is what makes a deadlock visible: each time a rank begins to
//! wait or finishes, [`waits`](super::waits) looks for a circle. Nothing here has a time limit.

use super::exchange::Exchange;
use super::meeting::{Attendance, Meeting, MeetingKey};
use super::waits;
use crate::{Call, Error, Failure, Result};
use ledger::Kind;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Thread, available_parallelism};
use std::time::{Duration, Instant};

/// How often a rank only looks at its bell: about 1 µs, as long as a message between two cores takes. Longer would cost
/// more where both ranks happen to run on one core.
const LOOKS: u32 = 30;
/// How long it then gives way to other threads, the one it waits for perhaps, before it sleeps: a sleeping thread takes
/// 10 µs to wake up, and 50 µs on a virtual machine.
const YIELD: Duration = Duration::from_micros(50);

/// A call as the others see it, with its group.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) call: Arc<Call>,
    pub(crate) group: Arc<[usize]>,
}

#[derive(Debug, Default)]
pub(crate) enum Activity {
    #[default]
    Computing,
    Waiting(Waiting),
    Finished,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asked: Asked,
    pub(crate) thread: Thread,
    pub(crate) on: On,
}

/// What a rank waits for; filled in by the ranks that it waits for.
#[derive(Debug)]
pub(crate) enum On {
    Exchange(Exchange),
    Meeting(Attendance),
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) failure: Option<Arc<Failure>>,
    pub(crate) ranks: Vec<Activity>,
    pub(crate) meetings: HashMap<MeetingKey, Meeting>,
    /// Collective calls that not every rank of the group has made yet, by communicator and number.
    asked: HashMap<(u64, u64), Vec<(usize, Call)>>,
    /// Communicators made by a split that not every member has picked up: by parent, number and color.
    children: HashMap<(u64, u64, usize), (u64, usize)>,
    communicators: u64,
}

/// One rank's place to be woken at, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Bell(AtomicU32);

#[derive(Debug)]
pub(crate) struct World {
    state: Mutex<State>,
    failed: AtomicBool,
    bells: Vec<Bell>,
    /// [`LOOKS`], or none if ranks must share cores.
    looks: u32,
}

impl World {
    pub(crate) fn new(size: usize) -> Self {
        let cores = available_parallelism().map_or(1, std::num::NonZero::get);
        let ranks = (0..size).map(|_| Activity::Computing).collect();
        Self {
            // The world's communicator has number 0.
            state: Mutex::new(State { ranks, communicators: 1, ..State::default() }),
            failed: AtomicBool::new(false),
            bells: (0..size).map(|_| Bell::default()).collect(),
            looks: if size <= cores { LOOKS } else { 0 },
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless the group failed.
    pub(crate) fn enter(&self, rank: usize, asked: &Asked) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        match &state.failure {
            Some(failure) => Err(stopped(rank, asked, failure)),
            None => Ok(state),
        }
    }

    /// Waits until what `on` describes is there or the group failed, and returns it.
    pub(crate) fn wait(&self, mut state: MutexGuard<'_, State>, rank: usize, asked: &Asked, on: On) -> Result<On> {
        let thread = std::thread::current();
        let bell = &self.bells[rank].0;
        let silent = bell.load(Ordering::Acquire);
        state.ranks[rank] = Activity::Waiting(Waiting { asked: asked.clone(), thread, on });
        if let Some(failure) = waits::circle(&state, rank) {
            self.fail(&mut state, failure);
        }
        drop(state);
        self.listen(bell, silent);
        let mut state = self.lock();
        match (std::mem::take(&mut state.ranks[rank]), &state.failure) {
            (Activity::Waiting(waiting), _) if waiting.on.is_complete() => Ok(waiting.on),
            (_, Some(failure)) => Err(stopped(rank, asked, failure)),
            // Not reached: the bell rings for nothing else.
            _ => Err(candle_core::Error::Msg(format!("rank {rank} was woken for nothing")).into()),
        }
    }

    /// Returns once the bell has rung: looks, gives way, then sleeps.
    fn listen(&self, bell: &AtomicU32, silent: u32) {
        for _ in 0..self.looks {
            if bell.load(Ordering::Acquire) != silent {
                return;
            }
            std::hint::spin_loop();
        }
        let start = Instant::now();
        while start.elapsed() < YIELD {
            if bell.load(Ordering::Acquire) != silent {
                return;
            }
            std::thread::yield_now();
        }
        while bell.load(Ordering::Acquire) == silent {
            std::thread::park();
        }
    }

    /// Wakes `rank`, which waits.
    pub(crate) fn ring(&self, rank: usize, waiting: &Waiting) {
        self.bells[rank].0.fetch_add(1, Ordering::Release);
        waiting.thread.unpark();
    }

    /// The group ends with `failure`, unless it has failed already.
    pub(crate) fn fail(&self, state: &mut State, failure: Failure) {
        if state.failure.is_some() {
            return;
        }
        state.failure = Some(Arc::new(failure));
        self.failed.store(true, Ordering::Release);
        for (rank, activity) in state.ranks.iter().enumerate() {
            if let Activity::Waiting(waiting) = activity
                && !waiting.on.is_complete()
            {
                self.ring(rank, waiting);
            }
        }
    }

    /// [`World::fail`], from outside of any call.
    pub(crate) fn abort(&self, failure: Failure) {
        let _host = ledger::scope(Kind::Host);
        self.fail(&mut self.lock(), failure);
    }

    /// A panic's message, once it is known: the drop of a handle during the panic had none.
    pub(crate) fn explain_panic(&self, panicked: usize, text: &str) {
        let mut state = self.lock();
        if let Some(Failure::Panic { rank, .. }) = state.failure.as_deref()
            && *rank == panicked
        {
            state.failure = Some(Arc::new(Failure::Panic { rank: panicked, message: text.to_owned() }));
        } else {
            self.fail(&mut state, Failure::Panic { rank: panicked, message: text.to_owned() });
        }
    }

    /// Rank `rank` makes no more calls.
    pub(crate) fn finish(&self, rank: usize) {
        let _host = ledger::scope(Kind::Host);
        let mut state = self.lock();
        state.ranks[rank] = Activity::Finished;
        if let Some(failure) = waits::left_behind(&state, rank) {
            self.fail(&mut state, failure);
        }
    }

    pub(crate) fn failure(&self) -> Option<Arc<Failure>> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.lock().failure.clone()
    }

    /// Compares a collective call with those that the rest of the group made at the same place.
    pub(crate) fn agree(&self, rank: usize, asked: &Asked, communicator: u64, number: u64) -> Result<()> {
        let mut state = self.enter(rank, asked)?;
        let calls = state.asked.entry((communicator, number)).or_default();
        calls.push((rank, (*asked.call).clone()));
        let agreed = calls.first().is_none_or(|(_, first)| first.agrees_with(&asked.call));
        if !agreed {
            let failure = Failure::Disagreement { group: asked.group.to_vec(), asked: calls.clone() };
            self.fail(&mut state, failure);
            return Err(state.failure.as_ref().map_or_else(
                || candle_core::Error::Msg("the group failed".to_owned()).into(),
                |failure| stopped(rank, asked, failure),
            ));
        }
        if calls.len() == asked.group.len() {
            state.asked.remove(&(communicator, number));
        }
        Ok(())
    }

    /// The number of the communicator that `size` ranks make by splitting `parent`.
    pub(crate) fn child(&self, parent: u64, number: u64, color: usize, size: usize) -> u64 {
        let mut state = self.lock();
        let next = state.communicators;
        let (id, picked) = state.children.entry((parent, number, color)).or_insert((next, 0));
        *picked += 1;
        let (id, all) = (*id, *picked == size);
        if id == next {
            state.communicators += 1;
        }
        if all {
            state.children.remove(&(parent, number, color));
        }
        id
    }
}

impl On {
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.is_complete(),
            Self::Meeting(attendance) => attendance.is_complete(),
        }
    }
}

pub(crate) fn stopped(rank: usize, asked: &Asked, failure: &Arc<Failure>) -> Error {
    Error::Stopped { rank, call: asked.call.to_string(), failure: failure.clone() }
}
