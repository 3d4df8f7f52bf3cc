//! Chapter 1: why must a model be distributed?
//!
//! One device does everything: it holds all weights, all keys and values, and makes one token after another. The chapter
//! measures what that costs, until it no longer fits. The lesson is the `README.md` of this crate.
//!
//! - [`commands`]: what `cargo ch1 …` runs, one file per subcommand;
//! - [`anatomy`]: one decoder layer, operation by operation;
//! - [`xw`], [`kv`]: what one product and one cache cost; [`memory`], [`throughput`]: what a whole model does;
//! - [`wall`]: the smallest device that it fits on; [`tour`]: how the guided tour speaks;
//! - [`train`]: what the `train` of every chapter has in common;
//! - [`variant`]: the single device, as others are compared with it;
//! - [`core`]: the functions that exercises replace; [`exercises`]: their tables; [`homework`]: your code;
//! - [`stories`]: the corpus and the tokenizer of the bundled model;
//! - [`notebook`]: the names that `notebooks/01-single-gpu.ipynb` begins with.

pub mod anatomy;
pub mod commands;
pub mod core;
pub mod exercises;
pub mod homework;
pub mod kv;
pub mod memory;
pub mod notebook;
pub mod stories;
pub mod throughput;
pub mod tour;
pub mod train;
pub mod variant;
pub mod wall;
pub mod xw;
