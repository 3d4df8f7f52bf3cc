//! What each chunk of the model takes, from a run on one device: what a simulation starts from.

use super::{MicroBatch, Pipeline};
use crate::Result;
use crate::schedule::{Action, Work};
use crate::simulate::Costs;
use collective::Roofline;
use decoder::{Context, Decoder, Positions};
use ledger::{Observer, Operation, Phase};
use std::sync::{Arc, Mutex, PoisonError};
use training::gradients::Gradients;
use training::segments::Chain;

/// Seconds of forward, input gradient and weight gradient, by kind of micro-batch and position.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Which kind each micro-batch is of.
    kinds: Vec<usize>,
    /// Per kind, per position.
    seconds: Vec<Vec<[f64; 3]>>,
    /// Per kind.
    bytes: Vec<u64>,
}

impl Costs for Profile {
    fn seconds(&self, position: usize, action: &Action) -> f64 {
        let [forward, input, weight] = self.seconds[self.kinds[action.micro_batch]][position];
        match action.work {
            Work::Forward => forward,
            Work::Backward => input + weight,
            Work::InputGradient => input,
            Work::WeightGradient => weight,
        }
    }

    fn bytes(&self, micro_batch: usize) -> u64 {
        self.bytes[self.kinds[micro_batch]]
    }
}

/// Runs one micro-batch of each kind (of the same rows and lengths) through the `whole` model, forward and backward, chunk by chunk,
/// and adds up what its operations take on `device`.
///
/// # Errors
/// The model is not whole here, or its computation failed.
pub fn profile(
    pipeline: &Pipeline,
    whole: &Decoder,
    context: &Context,
    micro_batches: &[MicroBatch],
    device: Roofline,
) -> Result<Profile> {
    let mut known: Vec<&Positions> = Vec::new();
    let mut profile = Profile { kinds: Vec::new(), seconds: Vec::new(), bytes: Vec::new() };
    for micro_batch in micro_batches {
        let positions = micro_batch.tokens.positions();
        let kind = known.iter().position(|known| *known == positions);
        if kind.is_none() {
            known.push(positions);
            profile.seconds.push(one(pipeline, whole, context, micro_batch, device)?);
            let elements = positions.rows() * positions.seq() * whole.config().hidden;
            profile.bytes.push((elements * whole.activations().size_in_bytes()) as u64);
        }
        profile.kinds.push(kind.unwrap_or(known.len() - 1));
    }
    Ok(profile)
}

fn one(
    pipeline: &Pipeline,
    whole: &Decoder,
    context: &Context,
    micro_batch: &MicroBatch,
    device: Roofline,
) -> Result<Vec<[f64; 3]>> {
    let stopwatch = Arc::new(Stopwatch { device, seconds: Mutex::default() });
    let mut context = context.clone().with_observer(stopwatch.clone());
    context.sink = Some(Arc::new(Gradients::expected(whole, 1)));
    let chain = Chain::new(whole, &context, &micro_batch.tokens)?;
    let (mut x, embedded) = chain.embed()?;
    let (mut segments, mut loss) = (vec![vec![embedded]], None);
    let chunks = pipeline.stages().chunks();
    let mut seconds = Vec::new();
    for (position, layers) in chunks.iter().enumerate() {
        if position > 0 {
            segments.push(Vec::new());
        }
        for layer in layers.clone() {
            let (y, saved) = chain.layer(layer, &x)?;
            segments[position].push(saved);
            x = y;
        }
        if position + 1 == chunks.len() {
            loss = Some(chain.loss(&x, &micro_batch.targets)?);
        }
        seconds.push(stopwatch.take());
    }
    let mut gradient = loss.map(|loss| loss.backward(1.0)).transpose()?.flatten();
    for (segments, seconds) in segments.into_iter().zip(&mut seconds).rev() {
        for saved in segments.into_iter().rev() {
            gradient = gradient.map(|gradient| saved.backward(&gradient)).transpose()?.flatten();
        }
        let [_, input, weight] = stopwatch.take();
        (seconds[1], seconds[2]) = (input, weight);
    }
    Ok(seconds)
}

/// Adds up seconds by phase.
#[derive(Debug)]
struct Stopwatch {
    device: Roofline,
    seconds: Mutex<[f64; 3]>,
}

impl Stopwatch {
    fn take(&self) -> [f64; 3] {
        std::mem::take(&mut *self.seconds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Stopwatch {
    fn observe(&self, operation: &Operation) -> Result<(), ledger::Error> {
        let phase = match operation.phase {
            Phase::Forward => 0,
            Phase::InputGradient => 1,
            Phase::WeightGradient => 2,
        };
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds[phase] += self.device.seconds(operation.flops, operation.bytes);
        Ok(())
    }
}
