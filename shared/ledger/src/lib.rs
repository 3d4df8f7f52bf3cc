//! The leaf that everything counts with.
//!
//! Every claim of the workspace is a formula's number beside a counted one. This crate holds the counted side:
//!
//! - [`Kind`], [`scope`]: *what for* are bytes held (weights, KV cache, …);
//! - [`Ledger`]: *who* holds them (one ledger per rank), current and peak bytes, and a [`Ledger::set_limit`];
//! - [`CountingAllocator`]: measures them, one header per allocation; a program installs it, else nothing is measured
//!   ([`is_counting`]) and figures are `None`;
//! - [`Observer`], [`Operation`]: *what is computed*: FLOPs and bytes of each operation, in order;
//! - [`Bytes`]: sizes as people write and read them.
//!
//! It knows nothing of models, ranks or devices and depends on no other crate of the workspace.

mod account;
mod allocator;
mod bytes;
mod kind;
mod observer;
mod snapshot;
mod table;

pub use account::{Entered, Ledger};
pub use allocator::{CountingAllocator, is_counting};
pub use bytes::Bytes;
pub use kind::{Kind, KindScope, scope};
pub use observer::{All, Counts, Ignore, Limit, Observer, Operation, Phase, Record};
pub use snapshot::{Snapshot, Usage};

/// What an observer, a ledger or a size can object to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More device bytes were held than the virtual device has.
    #[error(
        "{who} is out of device memory: {} ({held} bytes) were held at once, the device has {} ({limit} bytes)\n{snapshot}  \
         hold less (a smaller model, batch or context, a narrower dtype, more ranks) or give it more with --device-memory",
        Bytes(*held), Bytes(*limit)
    )]
    OutOfMemory {
        /// Name of the ledger: `rank 3`.
        who: String,
        /// Size of the virtual device, in bytes.
        limit: u64,
        /// Most device bytes held at once since the check before.
        held: u64,
        /// The figures by kind, after the operation.
        snapshot: Box<Snapshot>,
    },
    /// A limit was asked for in a program that measures nothing.
    #[error(
        "a limit of device memory needs measured bytes, and this program measures none: install ledger::CountingAllocator \
         as its #[global_allocator], or leave the limit out"
    )]
    NotCounting,
    /// Every place of the table is taken.
    #[error("no ledger is left for {name}: all {places} are in use or still hold bytes; run fewer ranks at once")]
    NoFreeLedger {
        /// For whom one was asked.
        name: String,
        /// How many there are.
        places: usize,
    },
    /// A text that is not a size in bytes.
    #[error("{text:?} is not a size in bytes: {problem}")]
    Bytes {
        /// The text.
        text: String,
        /// What is wrong, and what would be legal.
        problem: String,
    },
}
