//! What a stage holds, by formula: its part of the weights and gradients, and the activations of what is in flight.

use crate::engine::{MicroBatch, Pipeline};
use crate::schedule::Work;
use decoder::model::Footprint;
use lab::loaded::Described;
use ledger::Kind;

/// Bytes of stage `stage` at most, by kind, for one step of `pipeline` over `micro_batches`.
///
/// In flight, a chunk keeps what its layers keep; once its input gradient is done and its weight gradient is not, the inputs of its
/// matrix products and the gradients of their outputs. Beside them there is the widest place of one layer's backward.
pub fn predicted(
    described: &Described,
    pipeline: &Pipeline,
    micro_batches: &[MicroBatch],
    stage: usize,
) -> Vec<(Kind, u64)> {
    let config = &described.config;
    let (stages, last) = (pipeline.stages(), pipeline.stages().chunks().len() - 1);
    let parameters = stages.parameters(config, stage);
    let weight = described.dtype.size_in_bytes() as u64;
    let gradient = if described.dtype == candle_core::DType::F64 { 8 } else { 4 };
    let footprint = |index: usize| {
        let positions = micro_batches[index].tokens.positions();
        Footprint::new(config, positions.rows(), positions.seq(), described.dtype, &described.device)
    };
    let (mut held, mut most) = (0u64, 0u64);
    for action in &pipeline.schedule().stages[stage] {
        let footprint = footprint(action.micro_batch);
        let position = stages.position(stage, action.chunk);
        let layers = stages.chunks()[position].len() as u64;
        let head = position == last;
        let kept =
            footprint.rotation() + layers * footprint.kept_by_layer() + if head { footprint.kept_by_head() } else { 0 };
        let late =
            layers * footprint.kept_for_weights() + if head { footprint.hidden() + footprint.logits() } else { 0 };
        let beside = match action.work {
            Work::Forward => footprint.hidden(),
            Work::WeightGradient => 0,
            _ if head => footprint.backward_of_head().max(footprint.backward_of_layer()),
            _ => footprint.backward_of_layer(),
        };
        if action.work == Work::Forward {
            held += kept;
        }
        most = most.max(held + beside);
        match action.work {
            Work::Backward => held -= kept,
            Work::InputGradient => held = held - kept + late,
            Work::WeightGradient => held -= late,
            Work::Forward => {}
        }
    }
    vec![(Kind::Weights, parameters * weight), (Kind::Gradients, parameters * gradient), (Kind::Activations, most)]
}
