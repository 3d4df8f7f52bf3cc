//! The table behind every [`Ledger`](crate::Ledger): one slot of atomic counters per rank.
//!
//! The allocator writes here, so nothing in this module allocates or blocks on its way ([`Slot::charge`],
//! [`Slot::credit`], [`current_slot`]). Counters are `Relaxed`: a free happens after its allocation because the pointer
//! was handed over, so a counter never falls below zero, and no other memory is published through them.

use crate::Kind;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Slots there are. Untouched slots cost address space only.
pub(crate) const SLOTS: usize = 1024;

const KINDS: usize = Kind::ALL.len();
/// The stored form of "no limit".
const NO_LIMIT: u64 = u64::MAX;

static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

thread_local! {
    // Initialised at compile time and without a destructor: reading it allocates nothing and works until the thread ends.
    static CURRENT: Cell<u16> = const { Cell::new(0) };
}

/// Number of the slot that the current thread allocates for.
pub(crate) fn current_slot() -> u16 {
    CURRENT.try_with(Cell::get).unwrap_or(0)
}

/// Makes the current thread allocate for `slot`; returns the slot from before.
pub(crate) fn replace_current_slot(slot: u16) -> u16 {
    CURRENT.replace(slot)
}

/// The counters of slot number `slot` (numbers come from this module, so they are in range).
pub(crate) fn slot(slot: u16) -> &'static Slot {
    &TABLE[usize::from(slot) % SLOTS]
}

/// Counters of one rank. A cache line (or two) of its own, so that ranks do not slow each other down.
#[repr(align(128))]
pub(crate) struct Slot {
    current: [AtomicU64; KINDS],
    peak: [AtomicU64; KINDS],
    /// All kinds but host.
    device_current: AtomicU64,
    /// Peak of `device_current` since [`Slot::close_window`].
    window_peak: AtomicU64,
    /// Peak of `device_current` before that.
    earlier_peak: AtomicU64,
    limit: AtomicU64,
    /// Handles and entered guards; the slot is free when there are none and no byte is held.
    pub(crate) handles: AtomicU32,
    /// Whose slot it is.
    pub(crate) name: Mutex<String>,
}

impl Slot {
    const fn new() -> Self {
        Self {
            current: [const { AtomicU64::new(0) }; KINDS],
            peak: [const { AtomicU64::new(0) }; KINDS],
            device_current: AtomicU64::new(0),
            window_peak: AtomicU64::new(0),
            earlier_peak: AtomicU64::new(0),
            limit: AtomicU64::new(NO_LIMIT),
            handles: AtomicU32::new(0),
            name: Mutex::new(String::new()),
        }
    }

    /// `bytes` more are held.
    #[inline]
    pub(crate) fn charge(&self, kind: Kind, bytes: u64) {
        let index = kind as usize;
        add(&self.current[index], &self.peak[index], bytes);
        if kind.is_on_device() {
            add(&self.device_current, &self.window_peak, bytes);
        }
    }

    /// `bytes` fewer are held.
    #[inline]
    pub(crate) fn credit(&self, kind: Kind, bytes: u64) {
        self.current[kind as usize].fetch_sub(bytes, Relaxed);
        if kind.is_on_device() {
            self.device_current.fetch_sub(bytes, Relaxed);
        }
    }

    pub(crate) fn current(&self, kind: Kind) -> u64 {
        self.current[kind as usize].load(Relaxed)
    }

    pub(crate) fn peak(&self, kind: Kind) -> u64 {
        self.peak[kind as usize].load(Relaxed)
    }

    pub(crate) fn device_current(&self) -> u64 {
        self.device_current.load(Relaxed)
    }

    pub(crate) fn device_peak(&self) -> u64 {
        self.window_peak.load(Relaxed).max(self.earlier_peak.load(Relaxed))
    }

    /// Peaks start again from what is held now.
    pub(crate) fn reset_peaks(&self) {
        for (peak, current) in self.peak.iter().zip(&self.current) {
            peak.store(current.load(Relaxed), Relaxed);
        }
        let current = self.device_current();
        self.window_peak.store(current, Relaxed);
        self.earlier_peak.store(current, Relaxed);
    }

    /// Most device bytes held at once since the last call; a new window begins with what is held now.
    pub(crate) fn close_window(&self) -> u64 {
        let current = self.device_current();
        let peak = self.window_peak.swap(current, Relaxed).max(current);
        self.earlier_peak.fetch_max(peak, Relaxed);
        peak
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit != NO_LIMIT)
    }

    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(NO_LIMIT), Relaxed);
    }

    /// Whether any byte of any kind is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.iter().all(|current| current.load(Relaxed) == 0)
    }
}

#[inline]
fn add(current: &AtomicU64, peak: &AtomicU64, bytes: u64) {
    let held = current.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    // Looking first is cheaper than a read-modify-write: most allocations make no new peak.
    if held > peak.load(Relaxed) {
        peak.fetch_max(held, Relaxed);
    }
}
