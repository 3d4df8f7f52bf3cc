//! Chapter 2: how are data and parameters partitioned?
//!
//! X · W = Y can be divided in X or in W. This chapter shows both in one product, and then divides X: **data parallelism**. Every rank
//! holds the whole model and computes its own rows of the batch; once per step the gradients are summed. The lesson is the
//! `README.md` of this crate.
//!
//! - [`shard`] and [`mod@synchronise`]: data parallelism itself;
//! - [`core`]: these functions as values, which exercises replace; [`exercises`]: their tables; [`homework`]: your code;
//! - [`partition`]: one product divided in three ways;
//! - [`replica`]: whether all ranks hold the same model; [`train`]: one rank of a training run;
//! - [`serve`]: replicas that generate, score and differentiate;
//! - [`traffic`]: what a step must send; [`scaling`]: what that costs over more ranks and slower links;
//! - [`variant`]: data parallelism beside the other layouts;
//! - [`notebook`]: the names that `notebooks/02-data-parallel.ipynb` begins with;
//! - [`commands`]: what `cargo ch2 …` runs, one file per subcommand.

pub mod commands;
pub mod core;
mod error;
pub mod exercises;
pub mod homework;
pub mod memory;
pub mod notebook;
pub mod partition;
pub mod replica;
pub mod scaling;
pub mod serve;
pub mod shard;
pub mod synchronise;
pub mod traffic;
pub mod train;
pub mod variant;

pub use error::{Error, Result};
