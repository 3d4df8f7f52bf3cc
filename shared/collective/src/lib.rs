//! Ranks, and what passes between them.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use collective::{Options, ReduceOp, launch};
//!
//! let sums = launch(4, &Options::default(), |rank| {
//!     let mine = Tensor::new(&[rank.rank() as f32, 1.0], &Device::Cpu)?;
//!     let sum = rank.communicator().all_reduce(&mine, ReduceOp::Sum)?;
//!     Ok::<_, collective::Error>(sum.to_vec1::<f32>()?)
//! })?;
//! assert_eq!(sums, vec![vec![6.0, 4.0]; 4]);
//! # Ok::<(), collective::Error>(())
//! ```
//!
//! - [`Communicator`]: the one trait over which ranks talk; [`Request`], [`Call`]: an operation as data; [`Pending`]:
//!   one that was begun;
//! - [`launch`]: ranks as threads of this process; [`Failure`]: the one reason why they stopped;
//! - [`Algorithm`], [`Traffic`], [`volume`]: how operations are done, what they sent, what they must send;
//! - [`Link`], [`Topology`], [`Clock`]: how long that takes;
//! - [`Mesh`]: ranks on a grid; [`autograd`]: operations with a backward.
//!
//! It knows nothing of models: the clock hears of computing as a [`ledger::Observer`].

mod algorithms;
pub mod autograd;
mod call;
mod chunks;
mod clock;
mod communicator;
mod elements;
mod error;
mod link;
mod mesh;
mod pending;
mod threads;
mod traffic;
pub mod volume;

pub use algorithms::Algorithm;
pub use call::{Call, Operation, ReduceOp, Request};
pub use chunks::{chunk, chunks};
pub use clock::{Clock, ClockKind, Lane, Roofline, Span};
pub use communicator::Communicator;
pub use error::{Cause, Error, Failure, Result, Wait};
pub use link::{Link, Passage, Tier, Topology};
pub use mesh::Mesh;
pub use pending::{Pending, Ticket};
pub use threads::{Options, Rank, launch};
pub use traffic::{Entry, Sent, Traffic};
