//! `cargo ch4 schedule`: a schedule as a timeline, and what it promises beside what a run does.

use super::files;
use super::simulate::{SizeFlags, TimeFlags, ask_for_bubble, list, peaks, title};
use crate::core::Core;
use crate::engine::MicroBatch;
use crate::flags::{Choice, ScheduleFlags, StageFlags, in_terms_of_flags};
use crate::schedule::{Kind, Schedule};
use crate::simulate::{Closed, Simulation, simulate};
use crate::stages::LayerCosts;
use crate::step::Step;
use crate::{picture, step};
use anyhow::Context as _;
use ch1_single_gpu::stories;
use clap::Args;
use collective::{ClockKind, Options, Roofline};
use lab::ask;
use lab::compared::Unit;
use lab::flags::{ClusterFlags, DeviceFlags, MemoryFlags, ModelFlags, OutputFlags, TraceFlags, WithFlags};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use lab::{Compared, Comparison, numbers};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use training::data::{Batch, Batches, TokenData};

/// What `cargo ch4 schedule` takes.
#[derive(Args, Debug)]
pub(super) struct ScheduleCommand {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
    #[command(flatten)]
    size: SizeFlags,
    #[command(flatten)]
    times: TimeFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Tokens of each micro-batch of the run
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    seq: usize,
    /// Only the timeline: no run on tensors
    #[arg(long)]
    no_run: bool,
    /// Write the schedule into this file, as JSON that --schedule reads
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    trace: TraceFlags,
}

/// Micro-batches of a run on tensors at most.
const MOST_RUN: usize = 1 << 10;

/// A step on tensors: simulated from a profile, and run.
struct Ran {
    simulation: Simulation,
    bubble: f64,
    makespan: f64,
    peaks: Vec<usize>,
}

impl ScheduleCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let SizeFlags { stages, micro_batches } = self.size;
        let core = Core::choose(&self.with)?;
        let schedule = self.schedule.schedule(&core, stages, micro_batches).map_err(in_terms_of_flags)?;
        let (costs, links) = self.times.costs(&schedule)?;
        let simulation = simulate(&schedule, &costs, &links).map_err(in_terms_of_flags)?;
        let closed = self.kind().and_then(|kind| self.times.closed(kind, &schedule));
        let heading = title(&self.schedule, self.size);
        let guess = ask_for_bubble(&self.output, &heading)?;
        let ran = self.ran(&core, &schedule)?;
        if let Some(path) = plot {
            picture::figure(&heading, &simulation.stages).write(path)?;
        }
        if let Some(path) = &self.trace.trace {
            picture::trace(&simulation.stages)?.write(path)?;
        }
        if let Some(path) = &self.save {
            save(path, &schedule)?;
        }
        if self.output.json {
            let mut document = simulation.to_json();
            document["formula"] = json!(closed.map(|closed| closed.bubble));
            document["run"] = json!(ran.as_ref().ok().map(|ran| json!({
                "makespan": ran.makespan, "bubble": ran.bubble, "peak_in_flight": ran.peaks,
                "simulated_makespan": ran.simulation.makespan(), "simulated_bubble": ran.simulation.bubble(),
            })));
            return write_json(out, &document);
        }
        writeln!(out, "{heading}\n\n{}", picture::text(&simulation.stages))?;
        writeln!(out, "{}\n", self.bubbles(closed, &simulation))?;
        writeln!(out, "{}", peaks(&simulation, schedule.layout))?;
        if simulation.peaks.held != simulation.peaks.in_flight {
            writeln!(out, "with those that wait for their weight gradient: {}", list(&simulation.peaks.held))?;
        }
        match &ran {
            Ok(ran) => self.write_run(&simulation, ran, out)?,
            Err(reason) => writeln!(out, "\nnot run on tensors: {reason}")?,
        }
        if let Some(guess) = guess {
            writeln!(out, "\n{}", ask::beside(guess, 100.0 * simulation.bubble(), Unit::Number))?;
        }
        let [trace, saved] = [&self.trace.trace, &self.save].map(Option::as_deref);
        files(out, &[("figure", plot), ("trace", trace), ("schedule", saved)])
    }

    fn kind(&self) -> Option<Kind> {
        match &self.schedule.schedule {
            Choice::Named(kind) => Some(*kind),
            Choice::File(_) => None,
        }
    }

    fn bubbles(&self, closed: Option<Closed>, simulation: &Simulation) -> String {
        let simulated = numbers::percent(simulation.bubble());
        match closed {
            Some(closed) => format!("bubble: {} by formula, {simulated} simulated", numbers::percent(closed.bubble)),
            None if self.kind().is_none() => {
                format!("bubble: {simulated} simulated; a schedule from a file has no formula")
            }
            None => format!("bubble: {simulated} simulated; the formulas do not cover these numbers"),
        }
    }

    /// The schedule on the model's tensors, or why it is not run.
    fn ran(&self, core: &Core, schedule: &Schedule) -> anyhow::Result<Result<Ran, String>> {
        if self.no_run {
            return Ok(Err("--no-run".to_owned()));
        }
        if self.kind() == Some(Kind::Dualpipe) {
            return Ok(Err("dualpipe is only timed".to_owned()));
        }
        let described = Described::from_flags(&self.model, &self.device)?;
        let (chunks, layers) = (schedule.positions(), described.config.layers);
        if chunks > layers {
            return Ok(Err(format!("it needs {chunks} layers at least, and the model has {layers}")));
        }
        if schedule.micro_batches > MOST_RUN {
            let found = schedule.micro_batches.to_string();
            let expected = format!("at most {MOST_RUN} are run on tensors; with --no-run there is the timeline alone");
            return Err(lab::Error::Flag { flag: "--micro-batches", found, expected }.into());
        }
        let flags = StageFlags { pp: schedule.stages.len(), layers: Vec::new() };
        let stages = flags.stages(core, schedule.layout, &described.config, self.seq).map_err(in_terms_of_flags)?;
        let pipeline = core.pipeline(schedule.clone(), stages).map_err(in_terms_of_flags)?;
        let options = self.cluster.options(described.dtype, &MemoryFlags::default())?;
        let batch = batch(&described, schedule.micro_batches, self.seq)?;
        let parts = MicroBatch::split(&batch, schedule.micro_batches, &described.device)?;
        let Some(simulation) = step::simulated(&described, &pipeline, &parts, &options)? else {
            return Ok(Err("only the roofline clock can be simulated".to_owned()));
        };
        let step = step::run(&described, &pipeline, &parts, batch.count(), &options)?;
        let run = Simulation { stages: step.intervals(), ..simulation.clone() };
        let peaks = step.stages.iter().map(|stage| stage.outcome.peak_in_flight).collect();
        Ok(Ok(Ran { simulation, bubble: run.bubble(), makespan: run.makespan(), peaks }))
    }

    fn write_run(&self, simulation: &Simulation, ran: &Ran, out: &mut Output) -> anyhow::Result<()> {
        writeln!(
            out,
            "\nThe same schedule on the model's tensors, {} tokens per micro-batch; {}, {} between the stages:\n",
            self.seq,
            self.cluster.clock_text(),
            self.cluster.topology()?.within.name
        )?;
        let mut comparison = Comparison::default()
            .with(Compared::within("step", ran.simulation.makespan(), Some(ran.makespan), 1e-9, Unit::Seconds))
            .with(Compared::within("bubble", ran.simulation.bubble(), Some(ran.bubble), 1e-9, Unit::Number));
        let peaks = simulation.peaks.in_flight.iter().zip(&ran.peaks).enumerate();
        for (stage, (&predicted, &measured)) in peaks {
            let what = format!("stage {stage}: in flight");
            comparison.push(Compared::exact(what, predicted as u64, Some(measured as u64), Unit::Count));
        }
        writeln!(out, "{comparison}")?;
        anyhow::ensure!(comparison.all_hold(), "the run is not what was predicted");
        Ok(())
    }
}

/// Writes the document that `--schedule` reads; its folder is created.
fn save(path: &Path, schedule: &Schedule) -> anyhow::Result<()> {
    let context = || format!("writing {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    std::fs::write(path, schedule.to_json().to_string()).with_context(context)
}

/// Sequences of stories for one step.
pub(super) fn batch(described: &Described, rows: usize, seq: usize) -> anyhow::Result<Batch> {
    if !(1..=described.config.context).contains(&seq) {
        let expected = format!("from 1 to the model's context, {}", described.config.context);
        return Err(lab::Error::Flag { flag: "--seq", found: seq.to_string(), expected }.into());
    }
    let tokenizer = described.tokenizer()?;
    let ends = described.config.eos.first().copied();
    let ids = stories::tokens(&tokenizer, ends, 1, 0, rows * seq + 1)?;
    let data = Arc::new(TokenData::new(ids, described.config.vocab)?);
    Ok(Batches::new(data, 1, rows, seq)?.batch(0))
}

/// One step of the model on `stages` stages, `micro_batches` sequences of `seq` tokens, on the clock of an H100's roofline.
///
/// # Errors
/// The numbers do not fit the schedule or the model, or a stage failed.
pub fn step_on(
    described: &Described,
    kind: Kind,
    stages: usize,
    micro_batches: usize,
    seq: usize,
) -> anyhow::Result<Step> {
    let batch = batch(described, micro_batches, seq)?;
    let core = Core::default();
    let schedule = core.schedule(kind, stages, micro_batches, 2)?;
    let cut = core.stages(schedule.layout, stages, &LayerCosts::flops(&described.config, seq)?)?;
    let pipeline = core.pipeline(schedule, cut)?;
    let parts = MicroBatch::split(&batch, micro_batches, &described.device)?;
    let options = Options { clock: ClockKind::Roofline(H100), ..Options::default() };
    Ok(step::run(described, &pipeline, &parts, batch.count(), &options)?)
}

/// An H100's f32 and memory, half of which programs reach.
const H100: Roofline = Roofline { peak: 67e12, bandwidth: 3.35e12, efficiency: 0.5 };
