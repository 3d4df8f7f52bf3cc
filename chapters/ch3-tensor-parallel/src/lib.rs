//! Chapter 3: how does tensor parallelism decompose one layer?
//!
//! Every rank computes all tokens with a part of every matrix: some heads of attention, some columns of the feed-forward network, some
//! entries of the vocabulary. What each computes is a summand, and the ranks add twice per layer. The lesson is the `README.md` of this
//! crate.
//!
//! - [`core`]: the chapter's own functions as values, which exercises replace; [`exercises`]: their tables; [`homework`]: your code;
//! - [`layout`]: which part of which weight a rank holds, decided from the config alone;
//! - [`boundary`]: f and g, and their forms with sequence parallelism; [`vocabulary`]: embedding, logits and loss over parts of the
//!   vocabulary; [`tensor_parallel`]: all of these as one [`Split`](decoder::split::Split) of the decoder;
//! - [`gradients`]: which gradients must still be summed, and the norm over all ranks; [`whole`]: back to full tensors by their
//!   checkpoint names, and to one ordinary folder;
//! - [`context`]: the tokens of a long prompt over ranks;
//! - [`communication`], [`memory`]: what all of this must send and hold;
//! - [`anatomy`]: one layer, cut, to look at;
//! - [`serve`], [`train`]: one rank at work; [`variant`]: tensor parallelism beside the other layouts;
//! - [`notebook`]: the names that `notebooks/03-tensor-parallel.ipynb` begins with;
//! - [`commands`]: what `cargo ch3 …` runs, one file per subcommand.

pub mod anatomy;
pub mod boundary;
pub mod commands;
pub mod communication;
pub mod context;
pub mod core;
mod error;
pub mod exercises;
pub mod gradients;
pub mod homework;
pub mod layout;
pub mod memory;
pub mod notebook;
mod released;
pub mod serve;
pub mod tensor_parallel;
pub mod train;
pub mod variant;
pub mod vocabulary;
pub mod whole;

pub use error::{Error, Result};
pub use layout::Layout;
pub use tensor_parallel::TensorParallel;
