//! What embedding, layers and head cost, so that stages can be balanced.

use crate::Result;
use candle_core::DType;
use decoder::Config;
use decoder::shape::ModelShape;

/// Cost of each part of the model, in any unit: FLOPs of a forward, seconds of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerCosts {
    /// The embedding.
    pub embedding: f64,
    /// Every layer.
    pub layers: Vec<f64>,
    /// Final norm, head and loss.
    pub head: f64,
}

impl LayerCosts {
    /// FLOPs of a forward over one sequence of `seq` tokens. The backward is twice that for each part, so it changes no ratio. The
    /// embedding is a look-up: one addition per element in its backward is all it computes.
    ///
    /// # Errors
    /// The model's shape makes no sense.
    pub fn flops(config: &Config, seq: usize) -> Result<Self> {
        let shape = ModelShape::from_config(config)?;
        let layer = |index: usize| {
            let operations = shape.layer_operations(index as u64, 1, seq as u64, 0, DType::F32)?;
            Ok(operations.iter().map(|operation| operation.flops as f64).sum())
        };
        let layers = (0..config.layers).map(layer).collect::<Result<_>>()?;
        let head = shape.head_operation(seq as u64, DType::F32)?.flops as f64;
        Ok(Self { embedding: (seq * config.hidden) as f64, layers, head })
    }

    /// Cost of a chunk of `layers` at `position` of `positions`.
    pub fn chunk(&self, layers: std::ops::Range<usize>, position: usize, positions: usize) -> f64 {
        let embedding = if position == 0 { self.embedding } else { 0.0 };
        let head = if position + 1 == positions { self.head } else { 0.0 };
        embedding + self.layers[layers].iter().sum::<f64>() + head
    }
}
