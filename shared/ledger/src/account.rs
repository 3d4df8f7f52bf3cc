//! Who holds bytes: a [`Ledger`] is a handle of one slot of the table, like a rank.

use crate::table::{SLOTS, Slot, current_slot, replace_current_slot, slot};
use crate::{Error, Kind, Snapshot, Usage, is_counting};
use std::marker::PhantomData;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The account of one rank: bytes held by kind, now and at most, and the size of its virtual device.
///
/// Threads allocate for [`Ledger::main`] until they [`enter`](Ledger::enter) another. A handle is cheap to clone; all clones
/// are the same ledger. Figures are `None` where nothing is measured ([`is_counting`] is false): never 0.
#[derive(Debug)]
pub struct Ledger {
    slot: u16,
}

impl Ledger {
    /// The ledger of threads that entered no other.
    pub fn main() -> Self {
        Self::handle(0)
    }

    /// The ledger that the current thread allocates for.
    pub fn of_this_thread() -> Self {
        Self::handle(current_slot())
    }

    /// A new, empty ledger called `name` (`rank 3`), which messages use.
    ///
    /// Its place in the table is used again once the last handle is dropped **and** the last byte it paid for is freed: a
    /// late free still finds its owner.
    ///
    /// # Errors
    /// [`Error::NoFreeLedger`] if all places are taken.
    pub fn claim(name: &str) -> Result<Self, Error> {
        // The name belongs to the table, not to whoever calls: else it would keep the caller's ledger from becoming empty.
        let main = Self::main();
        let (_ledger, _kind) = (main.enter(), crate::scope(Kind::Host));
        for number in 1..SLOTS {
            let Ok(number) = u16::try_from(number) else { break };
            let place = slot(number);
            if place.handles.load(Acquire) != 0 || !place.is_empty() {
                continue;
            }
            if place.handles.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
                continue;
            }
            // The only handle is ours and no thread allocates for the slot: from here on its bytes can only fall.
            let ledger = Self { slot: number };
            if place.is_empty() {
                place.reset_peaks();
                place.set_limit(None);
                name.clone_into(&mut place.name.lock().unwrap_or_else(PoisonError::into_inner));
                return Ok(ledger);
            }
        }
        Err(Error::NoFreeLedger { name: name.to_owned(), places: SLOTS - 1 })
    }

    /// Makes the current thread allocate for this ledger until the guard is dropped. Guards nest; they end in reverse order,
    /// as local variables do. A thread started meanwhile begins with [`Ledger::main`].
    pub fn enter(&self) -> Entered {
        Entered { _ledger: self.clone(), before: replace_current_slot(self.slot), of_this_thread: PhantomData }
    }

    /// What it was [claimed](Ledger::claim) as; `main` for the first.
    pub fn name(&self) -> String {
        if self.slot == 0 {
            return "main".to_owned();
        }
        self.place().name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of `kind` held now.
    pub fn current(&self, kind: Kind) -> Option<u64> {
        is_counting().then(|| self.place().current(kind))
    }

    /// Most bytes of `kind` held at once since the start or [`Ledger::reset_peaks`].
    pub fn peak(&self, kind: Kind) -> Option<u64> {
        is_counting().then(|| self.place().peak(kind))
    }

    /// Bytes of all kinds but host held now.
    pub fn device_current(&self) -> Option<u64> {
        is_counting().then(|| self.place().device_current())
    }

    /// Most bytes of all kinds but host held at once since the start or [`Ledger::reset_peaks`]. At most the sum of the
    /// kinds' peaks, which need not fall together.
    pub fn device_peak(&self) -> Option<u64> {
        is_counting().then(|| self.place().device_peak())
    }

    /// All figures.
    pub fn snapshot(&self) -> Option<Snapshot> {
        is_counting().then(|| self.read())
    }

    /// Peaks start again from what is held now.
    pub fn reset_peaks(&self) {
        self.place().reset_peaks();
    }

    /// The size of the virtual device, in bytes.
    pub fn limit(&self) -> Option<u64> {
        self.place().limit()
    }

    /// Gives the ledger a virtual device of `limit` bytes, or none. What was held before does not count, what is held now does.
    ///
    /// # Errors
    /// [`Error::NotCounting`] if there is a limit but nothing to check it with.
    pub fn set_limit(&self, limit: Option<u64>) -> Result<(), Error> {
        if limit.is_some() && !is_counting() {
            return Err(Error::NotCounting);
        }
        self.place().close_window();
        self.place().set_limit(limit);
        Ok(())
    }

    /// Whether the virtual device would have been large enough since the last check.
    ///
    /// Decided on the **peak** of the device bytes since the last check (or [`Ledger::set_limit`]), not on what is held now: a
    /// temporary inside an operation is gone when the operation is over, but a device without room for it would have failed.
    /// Each check begins a new window with what is held then, so one excess is reported once.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the figures by kind.
    pub fn check(&self) -> Result<(), Error> {
        let Some(limit) = self.limit() else { return Ok(()) };
        let held = self.place().close_window();
        if held <= limit {
            return Ok(());
        }
        Err(Error::OutOfMemory { who: self.name(), limit, held, snapshot: Box::new(self.read()) })
    }

    fn handle(number: u16) -> Self {
        // Callers hold the slot already (it is slot 0, or the thread is in it, or `self` is a handle): it is not free meanwhile.
        slot(number).handles.fetch_add(1, Relaxed);
        Self { slot: number }
    }

    fn place(&self) -> &'static Slot {
        slot(self.slot)
    }

    fn read(&self) -> Snapshot {
        let place = self.place();
        Snapshot {
            kinds: Kind::ALL.map(|kind| Usage { current: place.current(kind), peak: place.peak(kind) }),
            device: Usage { current: place.device_current(), peak: place.device_peak() },
        }
    }
}

impl Clone for Ledger {
    fn clone(&self) -> Self {
        Self::handle(self.slot)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.place().handles.fetch_sub(1, AcqRel);
    }
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        self.slot == other.slot
    }
}

impl Eq for Ledger {}

/// Guard of [`Ledger::enter`]: restores the ledger from before.
#[derive(Debug)]
#[must_use = "the thread leaves the ledger when the guard is dropped"]
pub struct Entered {
    /// Keeps the slot taken while a thread allocates for it.
    _ledger: Ledger,
    before: u16,
    /// Not `Send`: dropped on another thread, it would change that thread's ledger.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        replace_current_slot(self.before);
    }
}
