//! Kinds of memory, and the scope that says which kind the current thread allocates.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

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

impl Kind {
    /// Every kind, in the order in which tables show them.
    pub const ALL: [Self; 8] = [
        Self::Weights,
        Self::Gradients,
        Self::Optimiser,
        Self::Activations,
        Self::KvCache,
        Self::Communication,
        Self::Workspace,
        Self::Host,
    ];

    /// The kind that the current thread allocates: that of the innermost [`scope`], [`Kind::Host`] outside of any.
    pub fn current() -> Self {
        // `try_with`: the allocator asks until the thread's very end.
        CURRENT.try_with(Cell::get).unwrap_or(Self::Host)
    }

    /// Whether bytes of this kind are charged to the device: all kinds but [`Kind::Host`].
    pub const fn is_on_device(self) -> bool {
        !matches!(self, Self::Host)
    }

    /// As tables and messages name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Gradients => "gradients",
            Self::Optimiser => "optimiser",
            Self::Activations => "activations",
            Self::KvCache => "KV cache",
            Self::Communication => "communication",
            Self::Workspace => "workspace",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

thread_local! {
    // Initialised at compile time and without a destructor: reading it allocates nothing and works until the thread ends.
    static CURRENT: Cell<Kind> = const { Cell::new(Kind::Host) };
}

/// Allocations of this thread are of `kind` until the returned guard is dropped.
///
/// Scopes nest; they end in reverse order, as local variables do.
///
/// ```
/// let cache = {
///     let _scope = ledger::scope(ledger::Kind::KvCache);
///     vec![0f32; 1024]
/// };
/// # drop(cache);
/// ```
pub fn scope(kind: Kind) -> KindScope {
    KindScope { before: CURRENT.replace(kind), of_this_thread: PhantomData }
}

/// Guard of [`scope`]: restores the kind from before.
#[derive(Debug)]
#[must_use = "the scope ends when the guard is dropped"]
pub struct KindScope {
    before: Kind,
    /// Not `Send`: dropped on another thread, it would change that thread's kind.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for KindScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
