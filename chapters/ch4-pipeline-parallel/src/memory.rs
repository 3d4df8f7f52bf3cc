//! What a stage holds, by formula: its part of the weights and gradients, and the activations of what is in flight. Beside tensors there are
//! their descriptors, which no formula names.

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
        // The embedding's result, and later its gradient.
        let embedding = if position == 0 { footprint.hidden() } else { 0 };
        let kept = footprint.rotation()
            + embedding
            + layers * footprint.kept_by_layer()
            + if head { footprint.kept_by_head() } else { 0 };
        let late_head = if head { footprint.hidden() + footprint.logits() } else { 0 };
        let late = embedding + layers * footprint.kept_for_weights() + late_head;
        let beside = match action.work {
            Work::Forward => footprint.hidden(),
            Work::WeightGradient => 0,
            // The head's graph goes before the last layer's backward begins, but for what its weight gradient needs later.
            _ if head => {
                let stays = if action.work == Work::InputGradient { late_head } else { 0 };
                let layer = (footprint.backward_of_layer() + stays).saturating_sub(footprint.kept_by_head());
                footprint.backward_of_head().max(layer)
            }
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
    let gradients = (parameters + added(pipeline, described, stage)) * gradient;
    vec![(Kind::Weights, parameters * weight), (Kind::Gradients, gradients), (Kind::Activations, most)]
}

/// Elements beside the gradients while a micro-batch's is added to the sum: the new one and the new sum, of the largest matrix. The
/// embedding's rows are added in place.
fn added(pipeline: &Pipeline, described: &Described, stage: usize) -> u64 {
    let (config, stages) = (&described.config, pipeline.stages());
    if pipeline.schedule().micro_batches == 1 {
        return 0;
    }
    let layers = stages.of_stage(stage).into_iter().flatten().flat_map(|layer| config.layer_weights(layer));
    let head = (stage == stages.last()).then_some((config.vocab * config.hidden) as u64);
    2 * layers.map(|weight| weight.elements()).chain(head).max().unwrap_or(0)
}
