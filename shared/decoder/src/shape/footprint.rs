//! All that a device must hold, and how many devices that takes at least.

use super::count::{Count, count, positive};
use super::hardware::Hardware;
use super::model::ModelShape;
use super::training::{Activations, StateBytes};
use crate::error::Result;
use candle_core::DType;

/// Bytes by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Footprint {
    /// Parameters.
    pub weights: u64,
    /// Keys and values of past tokens.
    pub kv_cache: u64,
    /// Gradients of parameters.
    pub gradients: u64,
    /// State of the optimiser.
    pub optimiser: u64,
    /// Intermediate results kept for the backward.
    pub activations: u64,
}

/// A training step, as far as memory is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training {
    /// Sequences whose activations are held at once.
    pub batch: u64,
    /// Tokens of each.
    pub tokens: u64,
    /// Bytes per parameter.
    pub state: StateBytes,
    /// How activations are kept.
    pub activations: Activations,
}

impl ModelShape {
    /// What generating holds: weights and the KV cache of `batch` sequences of `context` tokens.
    ///
    /// # Errors
    /// `context` or `batch` is 0, `dtype` has no whole bytes, or a number does not fit in 64 bits.
    pub fn inference_footprint(&self, context: u64, batch: u64, dtype: DType) -> Result<Footprint> {
        let footprint = Footprint {
            weights: self.weight_bytes(dtype)?,
            kv_cache: self.kv_bytes(context, batch, dtype)?,
            ..Footprint::default()
        };
        footprint.total().map(|_| footprint)
    }

    /// What training holds at the end of a forward pass: weights, gradients, optimiser state, activations.
    ///
    /// # Errors
    /// `batch` or `tokens` is 0, or a number does not fit in 64 bits.
    pub fn training_footprint(&self, training: &Training) -> Result<Footprint> {
        let parameters = count(self.parameters()?.total());
        let footprint = Footprint {
            weights: (parameters * training.state.weights).u64("weight bytes")?,
            gradients: (parameters * training.state.gradients).u64("gradient bytes")?,
            optimiser: (parameters * training.state.optimiser).u64("optimiser bytes")?,
            activations: self.activation_bytes(training.batch, training.tokens, training.activations)?,
            ..Footprint::default()
        };
        footprint.total().map(|_| footprint)
    }
}

impl Footprint {
    /// All of it.
    ///
    /// # Errors
    /// It does not fit in 64 bits.
    pub fn total(&self) -> Result<u64> {
        let parts = [self.weights, self.kv_cache, self.gradients, self.optimiser, self.activations];
        parts.into_iter().map(count).sum::<Count>().u64("bytes")
    }

    /// Devices at least: ⌈total / memory⌉, as if the bytes could be split evenly and nothing else took room.
    ///
    /// # Errors
    /// The total does not fit in 64 bits.
    pub fn devices_needed(&self, device: &Hardware) -> Result<u64> {
        self.devices_of(device.memory.get())
    }

    /// As [`Footprint::devices_needed`], for devices of `memory` bytes.
    ///
    /// # Errors
    /// `memory` is 0, or the total does not fit in 64 bits.
    pub fn devices_of(&self, memory: u64) -> Result<u64> {
        positive("device memory", memory)?;
        Ok(self.total()?.div_ceil(memory))
    }
}
