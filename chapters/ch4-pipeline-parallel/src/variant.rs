//! Pipelines, as `cargo compare` runs them.

use crate::engine::{MicroBatch, Outcome as StageOutcome, Pipeline, Stage};
use crate::inference::{Server, generate};
use crate::schedule::{Kind, Layout};
use crate::simulate::Simulation;
use crate::stages::{LayerCosts, Stages};
use crate::{Error, memory};
use anyhow::Context as _;
use collective::{Rank, launch};
use decoder::Context;
use lab::variant::{Outcome, RankOutcome, Variant, Work};
use training::Named;

/// `pp` stages that work in the order of `kind`.
#[derive(Clone, Copy, Debug)]
pub struct PipelineParallel {
    /// Stages.
    pub pp: usize,
    /// Their order.
    pub kind: Kind,
}

/// What chapter 4 has to compare.
pub fn variants() -> Vec<Box<dyn Variant>> {
    let kinds = [Kind::Gpipe, Kind::OneForwardOneBackward, Kind::ZbH1];
    let all = [2, 4].into_iter().flat_map(|pp| kinds.map(|kind| PipelineParallel { pp, kind }));
    all.map(|variant| Box::new(variant) as Box<dyn Variant>).collect()
}

/// What one stage leaves behind.
type StageResult = (StageOutcome, Named, RankOutcome);

impl Variant for PipelineParallel {
    fn name(&self) -> String {
        format!("pp={} {}", self.pp, self.kind.name())
    }

    fn run(&self, work: &Work) -> anyhow::Result<Outcome> {
        let config = &work.described.config;
        let schedule = self.kind.schedule(self.pp, work.micro_batches, 2)?;
        let stages = Stages::balanced(schedule.layout, self.pp, &LayerCosts::flops(config, work.batch.seq)?)?;
        let pipeline = Pipeline::new(schedule, stages)?;
        let parts = MicroBatch::split(&work.batch, work.micro_batches, &work.described.device)?;
        let ranks = launch(self.pp, &work.options, |rank| gradient(rank, work, &pipeline, &parts))?;

        let (mut loss, mut gradients, mut results, mut intervals) = (None, Named::new(), Vec::new(), Vec::new());
        for (outcome, own, result) in ranks {
            loss = loss.or(outcome.loss);
            gradients.extend(own);
            results.push(result);
            intervals.push(outcome.intervals);
        }
        let loss = loss.context("the last stage has the loss")?;
        let run = Simulation { stages: intervals, peaks: pipeline.peaks().clone(), sent: Vec::new() };
        Ok(Outcome { tokens: self.tokens(work)?, loss, gradients, ranks: results, bubble: Some(run.bubble()) })
    }
}

impl PipelineParallel {
    /// The prompts, as many in flight as there are stages.
    fn tokens(&self, work: &Work) -> anyhow::Result<Vec<Vec<u32>>> {
        let stages = Stages::balanced(Layout::Straight, self.pp, &LayerCosts::flops(&work.described.config, 1)?)?;
        let in_flight = self.pp.min(work.prompts.len());
        let mut served = launch(self.pp, &work.options, |rank| {
            let split = stages.split(rank.rank());
            let model = work.described.load(&split)?;
            let context = Context::inference().with_split(split);
            let communicator = rank.communicator().as_ref();
            let server = Server { stages: &stages, communicator, model: &model, context: &context };
            generate(&server, &work.prompts, &work.generation, in_flight, |_, _| Ok(()))
        })?;
        Ok(served[0].generated.take().context("the first stage hears of every token")?.ids)
    }
}

fn gradient(rank: &Rank, work: &Work, pipeline: &Pipeline, parts: &[MicroBatch]) -> Result<StageResult, Error> {
    let (stages, here, config) = (pipeline.stages(), rank.rank(), &work.described.config);
    let split = stages.split(here);
    let model = work.described.load(&split)?;
    let context = Context::inference().with_split(split).with_observer(rank.observer());
    let communicator = rank.communicator().as_ref();
    let stage = Stage { pipeline, communicator, clock: rank.clock(), model: &model, context: &context };
    let begun = rank.clock().now();
    let mut outcome = stage.step(parts, work.batch.count())?;
    let mut gradients = std::mem::take(&mut outcome.gradients);
    stage.sum_tied(&mut gradients)?;
    let element = model.activations().size_in_bytes();
    let message = |part: usize| {
        let positions = parts[part].tokens.positions();
        (positions.rows() * positions.seq() * config.hidden * element) as u64
    };
    let ends = [stages.first(), stages.last()];
    let copies = config.tied && ends[0] != ends[1] && ends.contains(&here);
    let tied = if copies { (config.vocab * config.hidden * element) as u64 } else { 0 };
    let result = RankOutcome {
        predicted: memory::predicted(&work.described, pipeline, parts, here),
        memory: rank.ledger().snapshot(),
        predicted_sent: pipeline.sent(here, message) + tied,
        traffic: rank.traffic(),
        seconds: rank.clock().now() - begun,
    };
    Ok((outcome, gradients, result))
}
