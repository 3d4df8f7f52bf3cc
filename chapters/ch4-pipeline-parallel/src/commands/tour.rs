//! `cargo ch4` without a command: a guided tour of the chapter with the bundled model, in under a minute.
//!
//! Each stop calls the functions behind one of the other subcommands with small settings.

use super::schedule::batch;
use crate::core::Core;
use crate::engine::{MicroBatch, Pipeline};
use crate::inference::{Server, generate};
use crate::picture;
use crate::schedule::{Kind, Layout, Schedule};
use crate::simulate::{Closed, Links, Uniform, simulate};
use crate::stages::LayerCosts;
use crate::step::{self, Step};
use anyhow::Context as _;
use ch1_single_gpu::tour::Guide;
use clap::Args;
use collective::{ClockKind, Options, Roofline, launch};
use decoder::Context;
use decoder::generation::Options as Generation;
use lab::compared::Unit;
use lab::flags::{BUNDLED, DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::Output;
use lab::{Compared, Comparison, Table, numbers};
use ledger::Kind as Memory;
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
    fn stages(&mut self) -> anyhow::Result<()> {
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
            "The head costs as much as {} layers, so the cut with the cheapest most expensive stage is not always the \
             even one.",
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
        self.guide.measured(&format!("{last}"), &guess, last as f64, Unit::Count)?;
        self.guide.notice(
            "A stage holds the weights of its layers and nothing else: this is how a model that no device can hold is held.",
            "cargo ch4 stages --pp 4; cargo ch4 stages --pp 3 --layers 4,3,1",
        )?;
        Ok(())
    }

    fn bubbles(&mut self) -> anyhow::Result<()> {
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

    fn in_flight(&mut self) -> anyhow::Result<()> {
        self.guide.stop("What is in flight")?;
        let guess = self.guide.question(&format!(
            "Every forward keeps activations until its backward. With GPipe the first stage keeps all {MICRO_BATCHES} micro-batches. How \
             many does it keep with 1F1B?"
        ))?;
        self.guide.prediction(&format!("min(m, p - r), for stage r = 0: {STAGES}."))?;
        let mut comparison = Comparison::default();
        let mut bytes = Vec::new();
        let mut measured = 0;
        for kind in [Kind::Gpipe, Kind::OneForwardOneBackward] {
            let (pipeline, step) = self.step(kind)?;
            for (stage, result) in step.stages.iter().enumerate() {
                let predicted = pipeline.peaks().in_flight[stage] as u64;
                let what = format!("{}, stage {stage}: in flight", kind.name());
                let found = result.outcome.peak_in_flight as u64;
                comparison.push(Compared::exact(what, predicted, Some(found), Unit::Count));
            }
            measured = step.stages[0].outcome.peak_in_flight;
            bytes.push(step.stages[0].memory.as_ref().map(|memory| memory.of(Memory::Activations).peak));
        }
        self.guide.show(&comparison)?;
        let held = match bytes.as_slice() {
            [Some(gpipe), Some(one)] => format!(
                "; activations of stage 0: {} with GPipe, {} with 1F1B",
                ledger::Bytes(*gpipe),
                ledger::Bytes(*one)
            ),
            _ => String::new(),
        };
        self.guide.measured(&format!("{measured}{held}"), &guess, measured as f64, Unit::Count)?;
        self.guide.notice(
            "1F1B's memory does not grow with the number of micro-batches, so the bubble can be made as small as one likes. That is why \
             it is the usual schedule.",
            "cargo ch4 compare --pp 4 --micro-batches 16",
        )?;
        anyhow::ensure!(comparison.all_hold(), "the run is not what was predicted");
        Ok(())
    }

    fn zero_bubble(&mut self) -> anyhow::Result<()> {
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

    fn exactness(&mut self) -> anyhow::Result<()> {
        self.guide.stop("Exactly one device")?;
        let guess = self
            .guide
            .question("How far are the gradients of 4 stages from those of one device, relative to their norm?")?;
        self.guide.prediction("Only the order of additions differs: about 10^-7 in f32.")?;
        let one = self.one_device()?;
        let mut table = Table::new(["schedule", "loss", "gradient: largest difference"]);
        let mut worst = 0.0f64;
        for kind in [Kind::Gpipe, Kind::OneForwardOneBackward, Kind::ZbH2, Kind::ZbV] {
            let step = self.step(kind)?.1;
            let difference = lab::variant::largest_difference(&step.gradients, &one.gradients)?;
            worst = worst.max(difference);
            table.push([kind.name().to_owned(), format!("{:.6}", step.loss.mean()), format!("{difference:.1e}")]);
        }
        self.guide.show(&table)?;
        let text = format!("{worst:.1e} at most; loss of one device {:.6}", one.loss.mean());
        self.guide.measured(&text, &guess, worst, Unit::Number)?;
        self.guide.notice(
            "Each loss is divided by the count of the whole batch before its backward. Dividing by that of the micro-batch would make the \
             gradients 8 times too large, and Adam would hide it.",
            "cargo ch4 train --pp 4 --micro-batches 8 --steps 20; cargo ch1 train --steps 20",
        )?;
        anyhow::ensure!(worst < 1e-4, "the gradients differ by {worst}");
        Ok(())
    }

    fn generation(&mut self) -> anyhow::Result<()> {
        self.guide.stop("One token at a time, through four stages")?;
        let guess = self
            .guide
            .question("One sequence is continued on 4 stages. How many percent of the time does a stage work?")?;
        self.guide.prediction(
            "25: the next token cannot start before the last stage has chosen this one. Four sequences: up to 100.",
        )?;
        let texts = ["the dog", "the cat", "the girl", "the bird"];
        let tokenizer = self.described.tokenizer()?;
        let prompts = texts.iter().map(|text| tokenizer.encode(text, true)).collect::<Result<Vec<_>, _>>()?;
        let options = Generation { max_tokens: 24, ..Generation::default() };
        let stages = self.core.stages(Layout::Straight, STAGES, &LayerCosts::flops(&self.described.config, 1)?)?;
        let mut table = Table::new(["sequences in flight", "stage 0 works in", "of its ticks"]);
        let mut alone = 0.0;
        let mut continued = Vec::new();
        for in_flight in [1, 2, 4] {
            let here = &prompts[..in_flight];
            let served = launch(STAGES, &Options::default(), |rank| {
                let split = stages.split(rank.rank());
                let model = self.described.load(&split)?;
                let context = Context::inference().with_split(split).with_observer(rank.observer());
                let communicator = rank.communicator().as_ref();
                let server = Server { stages: &stages, communicator, model: &model, context: &context };
                generate(&server, here, &options, in_flight, |_, _| Ok(()))
            })?;
            let share = served[0].busy as f64 / served[0].ticks as f64;
            if in_flight == 1 {
                alone = share;
            }
            table.push([
                in_flight.to_string(),
                format!("{} of {}", served[0].busy, served[0].ticks),
                numbers::percent(share),
            ]);
            continued =
                served.into_iter().filter_map(|stage| stage.generated).flat_map(|generated| generated.ids).collect();
        }
        self.guide.show(&table)?;
        self.guide.measured(&numbers::percent(alone), &guess, 100.0 * alone, Unit::Number)?;
        for (text, ids) in texts.iter().zip(&continued) {
            self.guide.line(&format!("{text}{}", tokenizer.decode(ids, true)?))?;
        }
        self.guide.notice(
            "A pipeline does not make one answer faster; it makes room, and serves several at once. Each stage keeps the keys and values of \
             its own layers.",
            "cargo ch4 generate --pp 4 --prompt 'the dog' --prompt 'the cat'; cargo ch4 kv",
        )?;
        Ok(())
    }

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
