//! `cargo ch4 simulate`: a schedule of any size, from the times of its stages.

use super::files;
use crate::core::Core;
use crate::flags::{ScheduleFlags, in_terms_of_flags};
use crate::picture;
use crate::schedule::{Kind, Layout, Schedule};
use crate::simulate::{Closed, Links, Simulation, Uniform, simulate};
use clap::Args;
use lab::ask;
use lab::compared::Unit;
use lab::flags::{OutputFlags, TraceFlags, WithFlags};
use lab::numbers;
use lab::program::{Output, write_json};
use std::io::Write;

/// What `cargo ch4 simulate` takes. All times are in one unit, whichever it is.
#[derive(Args, Debug)]
pub(super) struct SimulateCommand {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
    #[command(flatten)]
    size: SizeFlags,
    #[command(flatten)]
    times: TimeFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    trace: TraceFlags,
}

/// The longest time of one action: sums of millions of them are far from infinite.
const LATEST: f64 = 1e100;

/// How large the pipeline is.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct SizeFlags {
    /// Pipeline stages
    #[arg(long, visible_alias = "pp", value_name = "STAGES", default_value_t = 4)]
    pub(super) stages: usize,
    /// Micro-batches of a step
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub(super) micro_batches: usize,
}

/// What a stage takes for one micro-batch, all its chunks together.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct TimeFlags {
    /// Time of a forward
    #[arg(long, value_name = "T", default_value_t = 1.0, allow_negative_numbers = true)]
    forward: f64,
    /// Time of the gradient of the input
    #[arg(long, value_name = "T", default_value_t = 1.0, allow_negative_numbers = true)]
    input_gradient: f64,
    /// Time of the gradient of the weights
    #[arg(long, value_name = "T", default_value_t = 1.0, allow_negative_numbers = true)]
    weight_gradient: f64,
    /// Time of a message between two stages
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    send: f64,
    /// Time of a forward and a whole backward that run together, for dualpipe [default: their sum]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    together: Option<f64>,
}

impl TimeFlags {
    /// The times of a stage's chunk.
    pub(super) fn costs(&self, schedule: &Schedule) -> lab::Result<(Uniform, Links)> {
        let together = self.together.map(|time| ("--together", time));
        let times = [
            ("--forward", self.forward),
            ("--input-gradient", self.input_gradient),
            ("--weight-gradient", self.weight_gradient),
            ("--send", self.send),
        ];
        for (flag, time) in times.into_iter().chain(together) {
            if !(0.0..=LATEST).contains(&time) {
                let expected = format!("a time, from 0 to {LATEST:e}");
                return Err(lab::Error::Flag { flag, found: time.to_string(), expected });
            }
        }
        if self.forward + self.input_gradient + self.weight_gradient == 0.0 {
            let expected = "one of --forward, --input-gradient and --weight-gradient takes time".to_owned();
            return Err(lab::Error::Flag { flag: "--forward", found: "0".to_owned(), expected });
        }
        if let Some(time) = self.together.filter(|_| schedule.layout != Layout::Bidirectional) {
            let expected = "only dualpipe lets a forward and a backward run together".to_owned();
            return Err(lab::Error::Flag { flag: "--together", found: time.to_string(), expected });
        }
        // With two copies of the model a micro-batch goes through one of a stage's two chunks.
        let chunks = schedule.positions() / schedule.stages.len();
        let uniform = Uniform {
            together: self.together,
            ..Uniform::new(self.forward, self.input_gradient, self.weight_gradient)
        };
        Ok((uniform.over(chunks), Links::Constant(self.send)))
    }

    /// What the literature's formula says, where it has one: they leave out communication.
    pub(super) fn closed(&self, kind: Kind, schedule: &Schedule) -> Option<Closed> {
        let times = Uniform {
            together: self.together,
            ..Uniform::new(self.forward, self.input_gradient, self.weight_gradient)
        };
        let (stages, chunks) = (schedule.stages.len(), schedule.layout.chunks());
        Closed::of(kind, stages, schedule.micro_batches, chunks, &times).filter(|_| self.send == 0.0)
    }
}

impl SimulateCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let SizeFlags { stages, micro_batches } = self.size;
        let schedule =
            self.schedule.schedule(&Core::choose(&self.with)?, stages, micro_batches).map_err(in_terms_of_flags)?;
        let (costs, links) = self.times.costs(&schedule)?;
        let simulation = simulate(&schedule, &costs, &links).map_err(in_terms_of_flags)?;
        let heading = title(&self.schedule, self.size);
        let guess = ask_for_bubble(&self.output, &heading)?;
        if let Some(path) = plot {
            picture::figure(&heading, &simulation.stages).write(path)?;
        }
        if let Some(path) = &self.trace.trace {
            picture::trace(&simulation.stages)?.write(path)?;
        }
        if self.output.json {
            return write_json(out, &simulation.to_json());
        }
        writeln!(out, "{heading}\n")?;
        if schedule.len() <= LONGEST {
            writeln!(out, "{}", picture::text(&simulation.stages))?;
        }
        show(&simulation, schedule.layout, out)?;
        if let Some(guess) = guess {
            writeln!(out, "\n{}", ask::beside(guess, 100.0 * simulation.bubble(), Unit::Number))?;
        }
        files(out, &[("figure", plot), ("trace", self.trace.trace.as_deref())])
    }
}

/// Actions of a timeline that still fits on a screen.
const LONGEST: usize = 2000;

/// `1f1b, 4 stages, 8 micro-batches`.
pub(super) fn title(schedule: &ScheduleFlags, size: SizeFlags) -> String {
    format!("{}, {} stages, {} micro-batches", schedule.schedule, size.stages, size.micro_batches)
}

/// With `--predict`, the learner's own percentage.
pub(super) fn ask_for_bubble(output: &OutputFlags, heading: &str) -> anyhow::Result<Option<f64>> {
    if !output.predict {
        return Ok(None);
    }
    Ok(ask::number(&format!("{heading}: how many percent of a step does a stage wait?"))?)
}

/// What is in flight, in the schedule's own unit: with several chunks on a stage a micro-batch is there once per chunk.
pub(super) fn peaks(simulation: &Simulation, layout: Layout) -> String {
    let unit = match layout {
        Layout::Interleaved { .. } | Layout::V => {
            format!(" (chunks of a micro-batch; a stage has {})", layout.chunks())
        }
        _ => String::new(),
    };
    format!("in flight at most, by stage: {}{unit}", list(&simulation.peaks.in_flight))
}

fn show(simulation: &Simulation, layout: Layout, out: &mut Output) -> std::io::Result<()> {
    writeln!(out, "makespan: {}", numbers::plain(simulation.makespan()))?;
    writeln!(out, "cost of a step: {} (first to last action of the busiest stage)", numbers::plain(simulation.cost()))?;
    writeln!(out, "bubble: {} of it", numbers::percent(simulation.bubble()))?;
    writeln!(out, "{}", peaks(simulation, layout))?;
    writeln!(out, "with those that wait for their weight gradient: {}", list(&simulation.peaks.held))
}

/// The first and last few of many numbers.
pub(super) fn list(numbers: &[usize]) -> String {
    let texts = |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    match numbers {
        [first @ .., _] if first.len() < 16 => texts(numbers),
        _ => format!("{} … {}", texts(&numbers[..6]), texts(&numbers[numbers.len() - 6..])),
    }
}
