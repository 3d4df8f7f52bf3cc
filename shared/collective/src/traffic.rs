//! What passed between ranks: every communicator counts its operations and the bytes it really sent.

use crate::{Operation, Tier};
use std::ops::{Add, AddAssign};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes sent by one rank, by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// To ranks of its own node.
    pub within: u64,
    /// To other nodes.
    pub between: u64,
}

impl Sent {
    /// All bytes.
    pub fn total(self) -> u64 {
        self.within + self.between
    }

    /// `bytes` over one tier.
    pub fn over(tier: Tier, bytes: u64) -> Self {
        match tier {
            Tier::Within => Self { within: bytes, between: 0 },
            Tier::Between => Self { within: 0, between: bytes },
        }
    }
}

impl Add for Sent {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { within: self.within + other.within, between: self.between + other.between }
    }
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Sent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// One operation in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The operation.
    pub operation: Operation,
    /// World ranks of the group.
    pub group: Arc<[usize]>,
    /// How often.
    pub calls: u64,
    /// Bytes of this rank's operands. A receive has none: it counts what it received.
    pub payload: u64,
    /// Bytes that this rank sent to other ranks under the algorithm.
    pub sent: Sent,
}

/// The traffic of one rank: one entry per operation and group, in the order of their first use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    entries: Vec<Entry>,
}

impl Traffic {
    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The sum over groups of `operation`: calls, payload, sent.
    pub fn of(&self, operation: Operation) -> (u64, u64, Sent) {
        let entries = self.entries.iter().filter(|entry| entry.operation == operation);
        entries.fold((0, 0, Sent::default()), |(calls, payload, sent), entry| {
            (calls + entry.calls, payload + entry.payload, sent + entry.sent)
        })
    }

    /// Bytes sent by all operations.
    pub fn sent(&self) -> Sent {
        self.entries.iter().map(|entry| entry.sent).sum()
    }

    /// Calls of all operations.
    pub fn calls(&self) -> u64 {
        self.entries.iter().map(|entry| entry.calls).sum()
    }

    pub(crate) fn record(&mut self, operation: Operation, group: &Arc<[usize]>, payload: u64, sent: Sent) {
        let known = self.entries.iter_mut().find(|entry| entry.operation == operation && entry.group == *group);
        match known {
            Some(entry) => {
                entry.calls += 1;
                entry.payload += payload;
                entry.sent += sent;
            }
            None => self.entries.push(Entry { operation, group: group.clone(), calls: 1, payload, sent }),
        }
    }
}

/// A traffic that several threads write.
#[derive(Debug, Default)]
pub(crate) struct Counter(Mutex<Traffic>);

impl Counter {
    pub(crate) fn record(&self, operation: Operation, group: &Arc<[usize]>, payload: u64, sent: Sent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(operation, group, payload, sent);
    }

    pub(crate) fn read(&self) -> Traffic {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
