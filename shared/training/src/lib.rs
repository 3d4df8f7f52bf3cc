//! What turns gradients into a trained model, on one device or on one rank of many.
//!
//! One step of training, as [`run::Run`] takes it: [`data::Batches`] says which tokens; [`accumulation`] sends them through the
//! [`segments`] of the model, forward and backward, which fills [`gradients`]; [`clip`] bounds the gradient, [`schedule::Schedule`] says
//! how far to go, [`optimiser::Optimiser`] goes there.
//!
//! A [`plan::Plan`] is the settings of a run. [`journal::Journal`] takes all its steps and keeps what must survive it:
//! [`checkpoint`]s and [`metrics`]; [`interrupt`] lets Ctrl-C end it between two steps.
//!
//! Everything that decides a trajectory is a pure function of the step (batches, learning rate) or is in the checkpoint (weights,
//! moments): a resumed run is bit for bit the run that was not interrupted.

pub mod accumulation;
pub mod checkpoint;
pub mod clip;
pub mod data;
mod diagnosis;
mod elements;
mod error;
pub mod footprint;
pub mod gradients;
pub mod interrupt;
pub mod journal;
pub mod metrics;
pub mod optimiser;
pub mod plan;
pub mod run;
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
