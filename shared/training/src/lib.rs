//! What turns gradients into a trained model, on one device or on one rank of many.
//!
//! One step of training: [`segments`] run the model forward and backward and fill [`gradients`]; [`data::Batches`] says which tokens, [`clip`] bounds the gradient, [`schedule::Schedule`] says
//! how far to go, [`optimiser::Optimiser`] goes there. [`checkpoint`] makes the run survive its end, [`metrics`] records
//! it, [`interrupt`] lets Ctrl-C end it between two steps.
//!
//! Everything that decides a trajectory is a pure function of the step (batches, learning rate) or is in the checkpoint (weights,
//! moments): a resumed run is bit for bit the run that was not interrupted.

pub mod checkpoint;
pub mod clip;
pub mod data;
mod elements;
mod error;
pub mod footprint;
pub mod gradients;
pub mod interrupt;
pub mod metrics;
pub mod optimiser;
#[cfg(test)]
mod random;
pub mod schedule;
pub mod segments;

pub use error::{Error, Result};

use candle_core::Tensor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tensors by their checkpoint name. Sorted, so that every rank goes through them in the same order.
///
/// Parameters are shared with the model: candle's tensors are handles, and the optimiser writes into the storage behind them.
pub type Named = BTreeMap<Arc<str>, Tensor>;
