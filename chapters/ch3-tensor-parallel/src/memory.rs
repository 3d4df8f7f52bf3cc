//! What a rank holds, from its sizes alone.
//!
//! A rank of a tensor-parallel group holds what a model of its heads, its width and its entries of the vocabulary would hold
//! ([`Layout::of_rank`]): weights, gradients, moments and KV cache fall with tp. Of the activations those inside of a block fall, too; the
//! hidden states between the blocks, the norms and the inputs of the first products are on every rank, unless the sequence is cut there.

use crate::boundary::Inputs;
use crate::layout::Layout;
use candle_core::{DType, Device};
use collective::chunk;
use decoder::model::Footprint;
use ledger::Kind;
use training::footprint::training_peak;

/// Tokens and types of a training step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Sequences of a micro-batch.
    pub rows: usize,
    /// Tokens of each.
    pub seq: usize,
    /// Type of the weights.
    pub dtype: DType,
    /// Bytes of optimiser state per parameter.
    pub optimiser: u64,
}

/// Bytes by kind, each at its own peak, of a training step on rank `rank`.
pub fn training(layout: &Layout, rank: usize, step: Step, sequence: Option<Inputs>) -> Vec<(Kind, u64)> {
    let config = layout.of_rank(rank);
    let peak = training_peak(&config, step.rows, step.seq, step.dtype, step.optimiser);
    let saved = sequence.map_or(0, |inputs| saved_by_slices(layout, rank, step, inputs));
    let mut kinds = vec![(Kind::Weights, peak.weights), (Kind::Gradients, peak.gradients)];
    if step.optimiser > 0 {
        kinds.push((Kind::Optimiser, peak.optimiser));
    }
    kinds.push((Kind::Activations, peak.activations.saturating_sub(saved)));
    kinds
}

/// Activations that sequence parallelism saves on rank `rank`.
///
/// Whole, a layer keeps 7 tensors of hidden states (two more with biases behind its reductions): its input, the input of each block's
/// first products, what each block's reduction gave, and each sum with the residual stream. With slices only the inputs of the first
/// products are whole, or none. The embedding's result and the head's input are slices as well.
fn saved_by_slices(layout: &Layout, rank: usize, step: Step, inputs: Inputs) -> u64 {
    let config = layout.config();
    let hidden = |seq| Footprint::new(config, step.rows, seq, step.dtype, &Device::Cpu).hidden();
    let rest = hidden(step.seq) - hidden(chunk(step.seq, layout.tp(), rank).len());
    let late_biases = u64::from(config.output_bias) + u64::from(config.ffn_bias);
    let of_layer = match inputs {
        Inputs::Kept => 5 + late_biases,
        Inputs::Regathered => 7 + late_biases,
    };
    rest * (of_layer * config.layers as u64 + 2)
}

/// Bytes by kind of generating: weights, and the KV cache of `rows` sequences of up to `context` tokens.
pub fn inference(layout: &Layout, rank: usize, rows: usize, context: usize, dtype: DType) -> Vec<(Kind, u64)> {
    let config = layout.of_rank(rank);
    let footprint = Footprint::new(&config, rows, 1, dtype, &Device::Cpu);
    vec![(Kind::Weights, footprint.weights()), (Kind::KvCache, footprint.kv_cache(rows, context))]
}
