//! Chapter 4: how does pipeline parallelism split across layers?
//!
//! Stages hold layers, and pass activations on and gradients back. The chapter is about the order in which they do it. The lesson is
//! the `README.md` of this crate.
//!
//! - [`schedule`]: the order as data, and the generators that make it;
//! - [`simulate`]: when everything happens, from the times of the stages;
//! - [`stages`]: which layers are on which stage; [`engine`]: a schedule run on tensors, one rank per stage;
//! - [`step`]: one step on ranks of its own, [`memory`]: what a stage holds, by formula; [`picture`]: timelines as text and figures;
//! - [`commands`]: what `cargo ch4 …` runs, one file per subcommand; [`flags`]: what they take; [`kv`]: the cache by layer and by head;
//! - [`core`]: the functions that exercises replace, as values; [`exercises`]: their tables; [`homework`]: your code;
//! - [`notebook`]: the names that `notebooks/04-pipeline-parallel.ipynb` begins with;
//! - [`variant`]: pipelines beside the other layouts;
//! - [`train`]: one stage of a training run; [`inference`]: prefill, decode and scores, with several sequences in flight.

pub mod commands;
pub mod core;
pub mod engine;
mod error;
pub mod exercises;
pub mod flags;
pub mod homework;
pub mod inference;
pub mod kv;
pub mod memory;
pub mod notebook;
pub mod picture;
pub mod schedule;
pub mod simulate;
pub mod stages;
pub mod step;
pub mod train;
pub mod variant;

pub use error::{Error, Result};
