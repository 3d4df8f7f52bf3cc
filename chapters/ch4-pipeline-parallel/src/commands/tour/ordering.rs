//! Stops about what is cut, and about the order of the work.

use super::{MICRO_BATCHES, SEQ, STAGES, Visit};
use crate::picture;
use crate::schedule::{Kind, Layout};
use crate::simulate::{Closed, Links, Uniform, simulate};
use crate::stages::LayerCosts;
use crate::step::Step;
use anyhow::Context as _;
use lab::compared::Unit;
use lab::{Table, numbers};

impl Visit<'_> {
    pub(super) fn stages(&mut self) -> anyhow::Result<()> {
        let config = &self.described.config;
        self.guide.stop("Which layers are where")?;
        let guess = self.guide.question(&format!(
            "{} layers on {STAGES} stages. The head, [{}, {}], is a matrix product, too. How many layers does the last stage \
             get?",
            config.layers, config.vocab, config.hidden
        ))?;
        let costs = LayerCosts::flops(config, SEQ)?;
        let layer = costs.layers.iter().sum::<f64>() / costs.layers.len() as f64;
        let stages = self.core.stages(Layout::Straight, STAGES, &costs)?;
        self.guide.prediction(&format!(
            "{}. The head costs as much as {} layers. A step is as long as the most expensive stage, so the cut is the one that \
             makes that stage cheapest: with a head of more than a layer the last stage would get fewer.",
            config.layers / STAGES,
            numbers::plain(costs.head / layer)
        ))?;
        let mut table = Table::new(["stage", "layers", "FLOPs of a forward", "parameters"]);
        for stage in 0..STAGES {
            let layers = stages.of_stage(stage)[0].clone();
            table.push([
                stage.to_string(),
                format!("{}-{}", layers.start, layers.end - 1),
                numbers::flops(costs.chunk(layers, stage, STAGES)),
                numbers::grouped(stages.parameters(config, stage)),
            ]);
        }
        self.guide.show(&table)?;
        let last = stages.of_stage(STAGES - 1)[0].len();
        self.guide.measured(&format!("{last} layers and the head"), &guess, last as f64, Unit::Count)?;
        self.guide.notice(
            "A stage holds the weights of its layers and nothing else: this is how a model that no device can hold is held.",
            "cargo ch4 stages --pp 4; cargo ch4 stages --pp 3 --layers 4,3,1",
        )?;
        Ok(())
    }

    pub(super) fn bubbles(&mut self) -> anyhow::Result<()> {
        self.guide.stop("The bubble, and what micro-batches do to it")?;
        let guess = self.guide.question(&format!(
            "GPipe sends {MICRO_BATCHES} micro-batches through {STAGES} stages, then all gradients back. How many percent of the \
             step does a stage wait?"
        ))?;
        let times = Uniform::new(1.0, 1.0, 1.0);
        let formula = Closed::of(Kind::Gpipe, STAGES, MICRO_BATCHES, 1, &times).context("GPipe has a formula")?;
        self.guide.prediction(&format!(
            "(p - 1) / (m + p - 1) = {} / {} = {}: the time to fill the pipeline and to drain it.",
            STAGES - 1,
            MICRO_BATCHES + STAGES - 1,
            numbers::percent(formula.bubble)
        ))?;
        for (kind, micro_batches) in [(Kind::Naive, 2), (Kind::Gpipe, MICRO_BATCHES)] {
            let schedule = self.core.schedule(kind, STAGES, micro_batches, 1)?;
            let timeline = simulate(&schedule, &times, &Links::Constant(0.0))?;
            let timeline = picture::text(&timeline.stages);
            self.guide.show(&format!("{}, {micro_batches} micro-batches\n{}", kind.name(), timeline.trim_end()))?;
        }
        let mut table = Table::new(["micro-batches", "naive", "gpipe", "1f1b"]);
        for micro_batches in [1, 4, 8, 16, 64] {
            let bubble = |kind: Kind| -> crate::Result<String> {
                let schedule = self.core.schedule(kind, STAGES, micro_batches, 1)?;
                Ok(numbers::percent(simulate(&schedule, &times, &Links::Constant(0.0))?.bubble()))
            };
            table.push([
                micro_batches.to_string(),
                bubble(Kind::Naive)?,
                bubble(Kind::Gpipe)?,
                bubble(Kind::OneForwardOneBackward)?,
            ]);
        }
        self.guide.show(&table)?;
        let schedule = self.core.schedule(Kind::Gpipe, STAGES, MICRO_BATCHES, 1)?;
        let simulated = simulate(&schedule, &times, &Links::Constant(0.0))?.bubble();
        let text = format!("{} in the timeline above", numbers::percent(simulated));
        self.guide.measured(&text, &guess, 100.0 * simulated, Unit::Number)?;
        self.guide.notice(
            "More micro-batches hide the bubble; without them three of four stages wait. 1F1B has the same bubble as GPipe.",
            "cargo ch4 schedule --kind gpipe --stages 4 --micro-batches 8 --plot out/gpipe.svg",
        )?;
        Ok(())
    }

    pub(super) fn zero_bubble(&mut self) -> anyhow::Result<()> {
        self.guide.stop("The half of the backward that nobody waits for")?;
        let guess = self.guide.question(
            "A backward makes two gradients. The stage before waits for that of the input; only the optimiser waits for that of \
             the weights. If each takes as long as a forward: what is left of 1F1B's bubble, in percent, if the weight gradients \
             fill it (ZB-H1)?",
        )?;
        self.guide.prediction("(p - 1)(F + I - W) in place of (p - 1)(F + I + W): a third.")?;
        let (_, one) = self.step(Kind::OneForwardOneBackward)?;
        let (pipeline, zero) = self.step(Kind::ZbH1)?;
        let times = Uniform::new(1.0, 1.0, 1.0);
        let timeline = simulate(pipeline.schedule(), &times, &Links::Constant(0.0))?;
        self.guide.show(&picture::text(&timeline.stages).trim_end())?;
        let cost = |kind: Kind| -> crate::Result<f64> {
            let schedule = self.core.schedule(kind, STAGES, MICRO_BATCHES, 2)?;
            let costs = times.over(schedule.layout.chunks());
            let simulation = simulate(&schedule, &costs, &Links::Constant(0.0))?;
            Ok(simulation.cost() - MICRO_BATCHES as f64 * times.total())
        };
        let share = 100.0 * cost(Kind::ZbH1)? / cost(Kind::OneForwardOneBackward)?;
        let mut table = Table::new(["schedule", "bubble, all three equal", "in flight on stage 0"]);
        for kind in [Kind::OneForwardOneBackward, Kind::Interleaved, Kind::ZbH1, Kind::ZbH2, Kind::ZbV] {
            let schedule = self.core.schedule(kind, STAGES, MICRO_BATCHES, 2)?;
            let costs = times.over(schedule.layout.chunks());
            let simulation = simulate(&schedule, &costs, &Links::Constant(0.0))?;
            let chunks = schedule.layout.chunks() as f64;
            table.push([
                kind.name().to_owned(),
                numbers::percent(simulation.bubble()),
                numbers::plain(simulation.peaks.in_flight[0] as f64 / chunks),
            ]);
        }
        self.guide.show(&table)?;
        let seconds = |step: &Step| step.stages.iter().map(|stage| stage.seconds).fold(0.0, f64::max);
        self.guide.measured(
            &format!(
                "{}. The same two steps with real gradients on the roofline clock: {} with 1F1B, {} with ZB-H1",
                numbers::percent(share / 100.0),
                numbers::seconds(seconds(&one)),
                numbers::seconds(seconds(&zero))
            ),
            &guess,
            share,
            Unit::Number,
        )?;
        picture::figure("ZB-H1, 4 stages, 8 micro-batches", &timeline.stages).write(&self.figures.join("zb-h1.svg"))?;
        self.guide.notice(
            "ZB-H1 has the memory of 1F1B, ZB-H2 nearly twice as much and no bubble; ZB-V gets there with two chunks per stage.",
            "cargo ch4 schedule --kind zb-h2 --stages 4 --micro-batches 8",
        )?;
        Ok(())
    }
}
