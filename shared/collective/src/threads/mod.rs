//! The engine whose ranks are threads of this process.
//!
//! - [`launch`]: starts the ranks and collects their results, or the one failure;
//! - `world`: what ranks share, and the one way to wait; `waits`: finds deadlocks;
//! - `exchange`, `meeting`: the two primitives, a message and a gathering of all;
//! - `stream`: one rank's calls in their order; `endpoint`: the communicator on top; `operation`, `handle`: a call
//!   while it runs, and after it was begun; `direct`: collectives on shared memory.

pub(crate) mod direct;
pub(crate) mod endpoint;
pub(crate) mod exchange;
pub(crate) mod handle;
pub(crate) mod launch;
pub(crate) mod meeting;
pub(crate) mod operation;
pub(crate) mod stream;
pub(crate) mod waits;
pub(crate) mod world;

pub use launch::{Options, Rank, launch};
