//! One step of a pipeline on ranks that exist just for it: what the commands and `cargo compare` measure.

use crate::engine::{MicroBatch, Outcome, Pipeline, Stage, profile};
use crate::simulate::{Links, Simulation, simulate};
use crate::{Error, Result};
use collective::{ClockKind, Operation, Options, Roofline, Traffic, launch};
use decoder::Context;
use decoder::split::Split;
use lab::loaded::Described;
use ledger::Snapshot;
use training::Named;
use training::accumulation::Loss;

/// What a step leaves behind.
#[derive(Debug)]
pub struct Step {
    /// Of the whole batch.
    pub loss: Loss,
    /// Of its mean loss: all stages' together, a tied embedding's summed.
    pub gradients: Named,
    /// Their norm, as the stages agree on it.
    pub norm: f64,
    /// Stage by stage.
    pub stages: Vec<StageStep>,
}

/// One stage's part.
#[derive(Debug)]
pub struct StageStep {
    /// When each action ran, and how much was in flight; without the gradients.
    pub outcome: Outcome,
    /// Bytes that it held; `None` where nothing is measured.
    pub memory: Option<Snapshot>,
    /// All that it sent.
    pub traffic: Traffic,
    /// Activations and gradients that it sent to other stages.
    pub messages: u64,
    /// By its clock, to the end of the last action.
    pub seconds: f64,
}

/// Runs one step: a rank per stage, each with its part of the weights.
///
/// # Errors
/// A stage failed.
pub fn run(
    described: &Described,
    pipeline: &Pipeline,
    micro_batches: &[MicroBatch],
    count: usize,
    options: &Options,
) -> Result<Step> {
    let ranks = launch(pipeline.stages().len(), options, |rank| {
        let split = pipeline.stages().split(rank.rank());
        let model = described.load(&split)?;
        let context = Context::inference().with_split(split).with_observer(rank.observer());
        let communicator = rank.communicator().as_ref();
        let stage = Stage { pipeline, communicator, clock: rank.clock(), model: &model, context: &context };
        let begun = rank.clock().now();
        let mut outcome = stage.step(micro_batches, count)?;
        let seconds = outcome.intervals.last().map_or(0.0, |last| last.end - begun);
        let messages = communicator.traffic().of(Operation::Send).2.total();
        let mut gradients = std::mem::take(&mut outcome.gradients);
        stage.sum_tied(&mut gradients)?;
        let norm = stage.global_norm(&gradients, 0)?;
        let loss = stage.share_loss(outcome.loss)?;
        let (memory, traffic) = (rank.ledger().snapshot(), rank.traffic());
        Ok::<_, Error>((StageStep { outcome, memory, traffic, messages, seconds }, gradients, norm, loss))
    })?;
    let mut step = Step { loss: Loss::default(), gradients: Named::new(), norm: 0.0, stages: Vec::new() };
    for (stage, gradients, norm, loss) in ranks {
        step.stages.push(stage);
        step.gradients.extend(gradients);
        (step.norm, step.loss) = (norm, loss);
    }
    Ok(step)
}

/// The same step, simulated: times of a profile on one device, links as in `options`. `None` under clocks that a simulator cannot
/// know.
///
/// # Errors
/// The model cannot be loaded or computed.
pub fn simulated(
    described: &Described,
    pipeline: &Pipeline,
    micro_batches: &[MicroBatch],
    options: &Options,
) -> Result<Option<Simulation>> {
    let ClockKind::Roofline(device) = options.clock else { return Ok(None) };
    predicted(described, pipeline, micro_batches, device, &Links::Topology(options.topology)).map(Some)
}

/// A simulation with a profile on `device`.
///
/// # Errors
/// The model cannot be loaded or computed.
pub fn predicted(
    described: &Described,
    pipeline: &Pipeline,
    micro_batches: &[MicroBatch],
    device: Roofline,
    links: &Links,
) -> Result<Simulation> {
    let whole = described.load(&Split::whole())?;
    let costs = profile(pipeline, &whole, &Context::inference(), micro_batches, device)?;
    simulate(pipeline.schedule(), &costs, links)
}

impl Step {
    /// When each stage's actions ran.
    pub fn intervals(&self) -> Vec<Vec<crate::simulate::Interval>> {
        self.stages.iter().map(|stage| stage.outcome.intervals.clone()).collect()
    }
}
