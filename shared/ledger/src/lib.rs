//! The leaf that everything counts with.
//!
//! Every claim of the workspace is a formula's number beside a counted one. This crate holds the counted side:
//!
//! - [`Kind`], [`scope`]: *what for* are bytes held (weights, KV cache, …);
//! - [`Ledger`]: *who* holds them (one ledger per rank), current and peak bytes, and a [`Ledger::set_limit`];
//! - [`CountingAllocator`]: measures them, one header per allocation;
//! - [`Observer`], [`Operation`]: *what is computed*: FLOPs and bytes of each operation, in order.
//!
//! It knows nothing of models, ranks or devices and depends on no other crate of the workspace.

mod kind;
mod observer;

pub use kind::{Kind, KindScope, scope};
pub use observer::{Counts, Ignore, Observer, Operation, Phase};

/// What an observer can object to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {}
