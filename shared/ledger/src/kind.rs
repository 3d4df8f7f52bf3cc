//! Kinds of memory, and the scope that says which kind the current thread allocates.

use std::cell::Cell;

/// What bytes are held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Parameters of the model.
    Weights,
    /// Gradients of parameters.
    Gradients,
    /// State of the optimiser (moments, master weights).
    Optimiser,
    /// Intermediate results, kept for the backward or not.
    Activations,
    /// Keys and values of past tokens.
    KvCache,
    /// Buffers of collective operations.
    Communication,
    /// Scratch memory inside one operation.
    Workspace,
    /// Memory of the host program (tokenizer, tables, …): never charged to the device.
    Host,
}

thread_local! {
    static CURRENT: Cell<Kind> = const { Cell::new(Kind::Host) };
}

/// Allocations of this thread are of `kind` until the returned guard is dropped.
///
/// ```
/// let cache = {
///     let _scope = ledger::scope(ledger::Kind::KvCache);
///     vec![0f32; 1024]
/// };
/// # drop(cache);
/// ```
pub fn scope(kind: Kind) -> KindScope {
    KindScope { before: CURRENT.replace(kind) }
}

/// Guard of [`scope`]: restores the kind from before.
#[derive(Debug)]
#[must_use = "the scope ends when the guard is dropped"]
pub struct KindScope {
    before: Kind,
}

impl Drop for KindScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
