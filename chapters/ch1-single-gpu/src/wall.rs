//! The wall: the smallest device that a piece of work fits on.
//!
//! [`attempt`] does the work on a virtual device of a given size and says how it ended, decided on the bytes that were measured.
//! [`smallest`] finds the size from which on it fits, by bisection, from real runs alone. The number to compare it with is
//! [`Work::predicted`] with the scratch memory of the matrix library, which [`probe_workspace`] measures on a single layer.
//!
//! Everything runs on one thread: a rank is one core, and each thread more would have scratch memory of its own.

use crate::memory::{Predicted, Work};
use lab::flags::RandomFlags;
use lab::loaded::Described;
use lab::program::in_pool;
use ledger::{Kind, Ledger, Snapshot, Usage};
use std::num::NonZeroUsize;

/// A model, and which weights it gets.
#[derive(Debug)]
pub struct Subject {
    /// Where it is, what it is.
    pub described: Described,
    /// Its own weights, or random ones.
    pub random: RandomFlags,
}

/// How a run ended.
#[derive(Debug)]
pub enum Attempt {
    /// It was done; this was held.
    Fits(Snapshot),
    /// More was held than the device has: [`ledger::Error::OutOfMemory`].
    OutOfMemory(ledger::Error),
}

impl Attempt {
    /// What was held, or that it did not fit.
    ///
    /// # Errors
    /// It did not fit.
    pub fn held(self) -> Result<Snapshot, ledger::Error> {
        match self {
            Self::Fits(snapshot) => Ok(snapshot),
            Self::OutOfMemory(error) => Err(error),
        }
    }
}

/// Does `work` in a ledger of its own, on a device of `limit` bytes.
///
/// # Errors
/// The program measures nothing, or the run failed for another reason than memory.
pub fn attempt(subject: &Subject, work: Work, limit: Option<u64>) -> lab::Result<Attempt> {
    let ledger = Ledger::claim(work.name())?;
    ledger.set_limit(limit)?;
    let ended = {
        let _entered = ledger.enter();
        in_pool(NonZeroUsize::MIN, || {
            // Read on the thread that computed: what the matrix library keeps goes with it.
            work.run(&subject.described, subject.random).map(|()| Ledger::of_this_thread().snapshot())
        })?
    };
    match ended {
        Ok(held) => Ok(Attempt::Fits(held.ok_or(ledger::Error::NotCounting)?)),
        Err(error) => out_of_memory(error).map(Attempt::OutOfMemory),
    }
}

/// The ledger's objection, wherever it arose; any other error is returned as it is.
fn out_of_memory(error: lab::Error) -> lab::Result<ledger::Error> {
    use ledger::Error::OutOfMemory;
    match error {
        lab::Error::Ledger(error @ OutOfMemory { .. })
        | lab::Error::Decoder(decoder::Error::Ledger(error @ OutOfMemory { .. })) => Ok(error),
        lab::Error::Training(error) => match *error {
            training::Error::Ledger(error @ OutOfMemory { .. })
            | training::Error::Decoder(decoder::Error::Ledger(error @ OutOfMemory { .. })) => Ok(error),
            other => Err(other.into()),
        },
        other => Err(other),
    }
}

/// The formula's prediction with the scratch memory that is measured on one layer.
///
/// # Errors
/// As [`Work::predicted`] and [`attempt`].
pub fn predicted(subject: &Subject, work: Work) -> lab::Result<Predicted> {
    let Described { config, dtype, .. } = &subject.described;
    let formula = work.predicted(config, *dtype)?;
    Ok(formula.with_workspace(probe_workspace(subject, work)?))
}

/// The scratch memory that the matrix library keeps, and holds at most, for `work`: measured on a model of the same shape with one layer. It packs
/// blocks of the matrices that it multiplies, so it depends on the processor's caches and on the shapes, not on the number of layers.
///
/// # Errors
/// As [`attempt`].
pub fn probe_workspace(subject: &Subject, work: Work) -> lab::Result<Usage> {
    let Described { source, config, device, dtype } = &subject.described;
    let mut config = config.clone();
    config.layers = 1;
    config.windows.truncate(1);
    let described = Described { source: source.clone(), config, device: device.clone(), dtype: *dtype };
    let one_layer = Subject { described, random: RandomFlags { random: Some(0) } };
    Ok(attempt(&one_layer, work, None)?.held()?.of(Kind::Workspace))
}

/// What a bisection found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smallest {
    /// The smallest size at which it worked.
    pub bytes: u64,
    /// Every size that was tried, in order, and whether it worked.
    pub tried: Vec<(u64, bool)>,
}

/// The smallest size at which `fits` says yes, to `step` bytes (at least 1): the size below by `step` or less does not fit.
/// The search begins at `start`, which may be too small. Nothing fits in 0 bytes.
///
/// # Errors
/// Those of `fits`.
pub fn smallest<E>(start: u64, step: u64, mut fits: impl FnMut(u64) -> Result<bool, E>) -> Result<Smallest, E> {
    let mut tried = Vec::new();
    let mut attempt = |bytes| {
        let worked = fits(bytes)?;
        tried.push((bytes, worked));
        Ok(worked)
    };
    let (mut low, mut high) = (0, start.max(1));
    while !attempt(high)? {
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > step.max(1) {
        let middle = low + (high - low) / 2;
        if attempt(middle)? { high = middle } else { low = middle }
    }
    Ok(Smallest { bytes: high, tried })
}
