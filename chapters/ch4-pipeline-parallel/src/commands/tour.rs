//! `cargo ch4` without a command: a guided tour of the chapter with the bundled model, in under a minute.
//!
//! `ordering` has the stops about what is cut and in which order the stages work, `running` those about what runs on them. Each stop
//! calls the functions behind one of the other subcommands with small settings.

mod ordering;
mod running;

use super::schedule::batch;
use crate::core::Core;
use crate::engine::{MicroBatch, Pipeline};
use crate::schedule::{Kind, Schedule};
use crate::stages::LayerCosts;
use crate::step::{self, Step};
use anyhow::Context as _;
use ch1_single_gpu::tour::Guide;
use clap::Args;
use collective::{ClockKind, Options, Roofline};
use lab::flags::{BUNDLED, DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::Output;
use std::io::Write;
use std::path::PathBuf;
use training::data::Batch;

/// Stages and micro-batches of the training stops.
const STAGES: usize = 4;
const MICRO_BATCHES: usize = 8;
const SEQ: usize = 64;
/// An H100's f32 and memory, half of which programs reach.
const DEVICE: Roofline = Roofline { peak: 67e12, bandwidth: 3.35e12, efficiency: 0.5 };

/// What `cargo ch4` takes without a command.
#[derive(Args, Debug)]
pub(super) struct Tour {
    /// Ask for your own number at every stop, before the prediction is shown
    #[arg(long)]
    predict: bool,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "out/ch4/tour")]
    out: PathBuf,
    #[command(flatten)]
    with: WithFlags,
}

/// What the stops have in common.
struct Visit<'a> {
    guide: Guide<'a, Output>,
    described: Described,
    batch: Batch,
    core: Core,
    figures: PathBuf,
}

impl Tour {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let described =
            Described::from_flags(&ModelFlags::default(), &DeviceFlags { cpu: true, ..Default::default() })?;
        writeln!(out, "Chapter 4: how does pipeline parallelism split across layers?\n")?;
        writeln!(
            out,
            "Six stops: {BUNDLED}, {} layers, on up to {STAGES} ranks. Times are those of an H100's roofline.\n\
             Each predicts a number, runs the real thing, and shows both.",
            described.config.layers
        )?;
        let batch = batch(&described, MICRO_BATCHES, SEQ)?;
        let guide = Guide::new(out, self.predict);
        let mut visit = Visit { guide, described, batch, core: Core::choose(&self.with)?, figures: self.out };
        visit.stages().context("stop 1, stages")?;
        visit.bubbles().context("stop 2, the bubble")?;
        visit.in_flight().context("stop 3, activations")?;
        visit.zero_bubble().context("stop 4, the weight gradient")?;
        visit.exactness().context("stop 5, exactness")?;
        visit.generation().context("stop 6, generation")?;
        visit.end()
    }
}

impl Visit<'_> {
    /// One step on four stages.
    fn step(&self, kind: Kind) -> anyhow::Result<(Pipeline, Step)> {
        let schedule = self.core.schedule(kind, STAGES, MICRO_BATCHES, 2)?;
        let parts = MicroBatch::split(&self.batch, MICRO_BATCHES, &self.described.device)?;
        self.step_of(schedule, &parts)
    }

    /// The whole batch at once, on one stage.
    fn one_device(&self) -> anyhow::Result<Step> {
        let parts = MicroBatch::split(&self.batch, 1, &self.described.device)?;
        Ok(self.step_of(self.core.schedule(Kind::Naive, 1, 1, 1)?, &parts)?.1)
    }

    fn step_of(&self, schedule: Schedule, parts: &[MicroBatch]) -> anyhow::Result<(Pipeline, Step)> {
        let costs = LayerCosts::flops(&self.described.config, SEQ)?;
        let stages = self.core.stages(schedule.layout, schedule.stages.len(), &costs)?;
        let pipeline = self.core.pipeline(schedule, stages)?;
        let options = Options { clock: ClockKind::Roofline(DEVICE), ..Options::default() };
        let step = step::run(&self.described, &pipeline, parts, self.batch.count(), &options)?;
        Ok((pipeline, step))
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let figures = self.figures.display().to_string();
        self.guide.labelled("", "")?;
        self.guide.labelled(
            "Answer",
            "Layers go on different devices. What passes between them is small, one activation per token; what it costs is waiting, \
             and the order of the work decides how much.",
        )?;
        self.guide.labelled("Figures", &format!("zb-h1.svg in {figures}"))?;
        self.guide.labelled("Lesson", "chapters/ch4-pipeline-parallel/README.md")?;
        self.guide.labelled("Again", "cargo ch4 --predict asks for your own number at every stop")?;
        Ok(())
    }
}
