//! `cargo ch4 compare`: all schedules on the same work.

use super::files;
use super::schedule::batch;
use crate::core::Core;
use crate::engine::{MicroBatch, Pipeline};
use crate::flags::{StageFlags, in_terms_of_flags};
use crate::schedule::Kind;
use crate::simulate::Simulation;
use crate::{Error, memory, step};
use clap::Args;
use lab::ask;
use lab::compared::Unit;
use lab::flags::{ClusterFlags, DeviceFlags, MemoryFlags, ModelFlags, OutputFlags, WithFlags, within};
use lab::loaded::Described;
use lab::plot::{Axis, Bars};
use lab::program::{Output, write_json};
use lab::{Table, numbers};
use ledger::{Bytes, Kind as Memory};
use serde::Serialize;
use std::io::Write;
use training::plan::MOST_ROWS;

/// What `cargo ch4 compare` takes.
#[derive(Args, Debug)]
pub(super) struct CompareCommand {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Pipeline stages
    #[arg(long, visible_alias = "pipeline-parallel-size", value_name = "STAGES", default_value_t = 4)]
    pp: usize,
    /// Micro-batches of a step
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    micro_batches: usize,
    /// Sequences of a step [default: as many as micro-batches]
    #[arg(long, value_name = "ROWS")]
    batch: Option<usize>,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    seq: usize,
    #[command(flatten)]
    output: OutputFlags,
}

/// One schedule's step.
#[derive(Debug, Serialize)]
struct Row {
    schedule: &'static str,
    /// Share of a step in which the average stage waits: simulated, run.
    predicted_bubble: Option<f64>,
    bubble: f64,
    /// Most micro-batches in flight, over the stages: counted in whole stages, so that chunks compare.
    in_flight: f64,
    /// Activations of the stage that holds most.
    predicted_activations: u64,
    activations: Option<u64>,
    /// Bytes that all stages send to each other.
    predicted_messages: Option<u64>,
    messages: u64,
    /// The step.
    seconds: f64,
    /// Largest relative difference of a gradient from the first schedule's.
    gradient_difference: f64,
}

/// The schedule that `--predict` asks about.
const ASKED: Kind = Kind::OneForwardOneBackward;

impl CompareCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let options = self.cluster.options(described.dtype, &MemoryFlags::default())?;
        let rows = self.batch.unwrap_or(self.micro_batches);
        within("--micro-batches", self.micro_batches, 1..=self.batch.unwrap_or(MOST_ROWS).max(1))?;
        within("--batch", rows, 1..=MOST_ROWS)?;
        let batch = batch(&described, rows, self.seq)?;
        let parts = MicroBatch::split(&batch, self.micro_batches, &described.device).map_err(in_terms_of_flags)?;
        let guess = match self.output.predict {
            true => ask::number(&format!("How many percent of a step does a stage wait with {}?", ASKED.name()))?,
            false => None,
        };
        let (mut results, mut left_out, mut first) = (Vec::new(), Vec::new(), None);
        for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::Dualpipe) {
            let pipeline = match self.pipeline(&core, kind, &described) {
                Ok(pipeline) => pipeline,
                Err(error @ (Error::Kind { .. } | Error::Stages { .. })) if kind != Kind::Naive => {
                    left_out.push(format!("{}: {error}", kind.name()));
                    continue;
                }
                Err(error) => return Err(in_terms_of_flags(error)),
            };
            let simulated = step::simulated(&described, &pipeline, &parts, &options)?;
            let step = step::run(&described, &pipeline, &parts, batch.count(), &options)?;
            let predicted =
                (0..self.pp).map(|stage| activations(&memory::predicted(&described, &pipeline, &parts, stage)));
            let run = Simulation { stages: step.intervals(), peaks: pipeline.peaks().clone(), sent: Vec::new() };
            let measured = step.stages.iter().map(|stage| Some(stage.memory.as_ref()?.of(Memory::Activations).peak));
            let most = pipeline.peaks().in_flight.iter().max().copied().unwrap_or(0);
            let first = first.get_or_insert_with(|| step.gradients.clone());
            results.push(Row {
                schedule: kind.name(),
                predicted_bubble: simulated.as_ref().map(Simulation::bubble),
                bubble: run.bubble(),
                in_flight: most as f64 / pipeline.schedule().layout.chunks() as f64,
                predicted_activations: predicted.max().unwrap_or(0),
                activations: measured.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()),
                predicted_messages: simulated.as_ref().map(|simulated| simulated.sent.iter().sum()),
                messages: step.stages.iter().map(|stage| stage.messages).sum(),
                seconds: run.makespan(),
                gradient_difference: lab::variant::largest_difference(first, &step.gradients)?,
            });
        }
        if let Some(path) = plot {
            let bars = Bars::grouped(
                "bubble by schedule",
                results.iter().map(|row| row.schedule),
                Axis::linear("% of a step"),
            );
            bars.series("", results.iter().map(|row| 100.0 * row.bubble)).write(path)?;
        }
        if self.output.json {
            return write_json(out, &results);
        }
        self.write(&results, &left_out, out)?;
        if let (Some(guess), Some(row)) = (guess, results.iter().find(|row| row.schedule == ASKED.name())) {
            writeln!(out, "\n{}", ask::beside(guess, 100.0 * row.bubble, Unit::Number))?;
        }
        files(out, &[("figure", plot)])
    }

    fn pipeline(&self, core: &Core, kind: Kind, described: &Described) -> crate::Result<Pipeline> {
        let schedule = core.schedule(kind, self.pp, self.micro_batches, 2)?;
        let flags = StageFlags { pp: self.pp, layers: Vec::new() };
        let stages = flags.stages(core, schedule.layout, &described.config, self.seq)?;
        core.pipeline(schedule, stages)
    }

    fn write(&self, rows: &[Row], left_out: &[String], out: &mut Output) -> anyhow::Result<()> {
        writeln!(
            out,
            "{} stages, {} micro-batches, {} tokens each; {}, {} between the stages\n",
            self.pp,
            self.micro_batches,
            self.seq,
            self.cluster.clock_text(),
            self.cluster.topology()?.within.name
        )?;
        let mut table = Table::new([
            "schedule",
            "bubble",
            "simulated",
            "in flight",
            "activations",
            "predicted",
            "messages",
            "predicted",
            "step",
            "gradient",
        ]);
        let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string());
        for row in rows {
            table.push([
                row.schedule.to_owned(),
                numbers::percent(row.bubble),
                row.predicted_bubble.map_or("-".to_owned(), numbers::percent),
                numbers::plain(row.in_flight),
                bytes(row.activations),
                bytes(Some(row.predicted_activations)),
                bytes(Some(row.messages)),
                bytes(row.predicted_messages),
                numbers::seconds(row.seconds),
                format!("{:.0e}", row.gradient_difference),
            ]);
        }
        writeln!(out, "{table}\n")?;
        writeln!(out, "in flight: micro-batches on the stage that holds most; activations: bytes there")?;
        writeln!(out, "gradient: largest difference from the first schedule's, relative to its norm")?;
        for line in left_out {
            writeln!(out, "left out: {line}")?;
        }
        Ok(())
    }
}

fn activations(predicted: &[(Memory, u64)]) -> u64 {
    predicted.iter().filter(|(kind, _)| *kind == Memory::Activations).map(|(_, bytes)| bytes).sum()
}
