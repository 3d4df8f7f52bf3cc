//! `cargo ch2 memory`: what each rank holds, whatever the number of ranks: chapter 1's wall again.

pub(super) mod figure;
mod published;
pub(super) mod run;

use crate::core::Core;
use anyhow::Context as _;
use ch1_single_gpu::wall::Subject;
use clap::Args;
use decoder::shape::published as model_named;
use lab::compared::Unit;
use lab::flags::{BUNDLED, DeviceFlags, MemoryFlags, ModelFlags, OutputFlags, RandomFlags, WithFlags, within};
use lab::program::{Output, write_json};
use lab::subject::Subject as Named;
use lab::{Error, ask};
use published::{Case, Training};
use run::{Load, Row, Runs};
use serde::Serialize;
use std::io::Write;
use training::plan::MOST_ROWS;

/// The recurring case of every chapter.
const CASE: &str = "Llama 3.1 70B";
/// More than this is not run.
const MOST: usize = 64;

/// What `cargo ch2 memory` takes.
#[derive(Args, Debug)]
pub(super) struct Memory {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    random: RandomFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Numbers of data-parallel ranks
    #[arg(long, visible_alias = "data-parallel-size", value_name = "RANKS", value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    dp: Vec<usize>,
    /// Sequences of the global batch
    #[arg(long, value_name = "ROWS", default_value_t = 8)]
    batch: usize,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    seq: usize,
    /// Published device for the published model
    #[arg(long, value_name = "NAME", default_value = "H100")]
    gpu: String,
    #[command(flatten)]
    memory: MemoryFlags,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct Document {
    runs: Option<Runs>,
    training: Option<Training>,
    case: Option<Case>,
}

impl Memory {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = &Core::choose(&self.with)?;
        let (plot, limit) = (self.output.plot()?, self.memory.device_memory()?);
        self.check()?;
        let named = Named::of(&self.model, &self.device)?;
        let guess = match self.output.predict {
            true => ask::number(
                "How many H100 (80 GB) hold one replica of Llama 3.1 70B and half of 20 users at 32K tokens?",
            )?,
            false => None,
        };
        let (runs, shape) = match named {
            Named::Loaded(described) => {
                let subject = Subject { described: *described, random: self.random };
                let shape = self.model.model.is_none().then(|| model_named(CASE)).transpose()?;
                let name = self.model.model.as_deref().unwrap_or(BUNDLED);
                let load = Load { dp: &self.dp, batch: self.batch, seq: self.seq, device_memory: limit };
                (Some(Runs::of(core, (&subject, name), load)?), shape)
            }
            Named::Published(model) => (None, Some(*model)),
        };
        let training = shape.as_ref().map(|model| Training::of(model, &self.gpu)).transpose()?;
        let case = shape.as_ref().map(|model| Case::of(model, &self.gpu)).transpose()?;
        let document = Document { runs, training, case };
        if let Some(path) = plot {
            document.draw(path).context("drawing the plot")?;
        }
        if let Some(Row { message: Some(message), dp, .. }) = document.runs.as_ref().and_then(Runs::none_fits) {
            anyhow::bail!(
                "{message}\n  whatever the number of ranks: with --dp {dp}, too, every rank holds the whole model"
            );
        }
        if self.output.json {
            return write_json(out, &document);
        }
        document.write(out)?;
        let answer = document.case.as_ref().and_then(|case| case.devices_of(2));
        if let (Some(guess), Some(devices)) = (guess, answer) {
            writeln!(out, "\n{}", ask::beside(guess, devices as f64, Unit::Count))?;
        }
        if let Some(path) = plot {
            writeln!(out, "\nfigure: {}", path.display())?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        let flag = |flag, found: usize, expected: String| Err(Error::Flag { flag, found: found.to_string(), expected });
        within("--batch", self.batch, 1..=MOST_ROWS)?;
        let most = self.batch.min(MOST);
        match self.dp.iter().find(|dp| !(1..=most).contains(dp)) {
            Some(&dp) => {
                let expected = format!("1 to {most} ranks: each computes at least one of the {} sequences", self.batch);
                flag("--dp", dp, expected)
            }
            None => Ok(()),
        }
    }
}

impl Document {
    fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        let mut first = true;
        let mut gap = |out: &mut Output| if std::mem::take(&mut first) { Ok(()) } else { writeln!(out) };
        if let Some(runs) = &self.runs {
            gap(out)?;
            runs.write(out)?;
        }
        if let Some(training) = &self.training {
            gap(out)?;
            training.write(out)?;
        }
        if let Some(case) = &self.case {
            gap(out)?;
            case.write(out)?;
        }
        Ok(())
    }
}
