//! `cargo ch1 wall`: the smallest device that a model fits on, predicted, and found by running out of memory.
//!
//! With `--device-memory` one run on a device of that size: it fits, or ends with the out-of-memory error. Without, the wall is looked
//! for: one run without a limit, one on a device that is a little too small, then a bisection over real runs.

use super::memory::KindBytes;
use super::memory::figure::{bars_by_kind, short};
use crate::memory::{Predicted, Work, within};
use crate::wall::{Attempt, Smallest, Subject, attempt, predicted, smallest};
use anyhow::Context as _;
use clap::Args;
use decoder::Error;
use lab::compared::Unit;
use lab::flags::{BUNDLED, DeviceFlags, MemoryFlags, ModelFlags, OutputFlags, RandomFlags};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use lab::progress::Progress;
use lab::{Compared, Comparison, Table, ask, numbers};
use ledger::{Bytes, Kind, Snapshot};
use serde::Serialize;
use std::io::Write;

/// More than this is not run.
const MOST: u64 = 8 << 30;
/// The bisection ends at this part of the predicted size.
const STEP: u64 = 1000;

/// What `cargo ch1 wall` takes.
#[derive(Args, Debug)]
pub(super) struct Wall {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    random: RandomFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Training with AdamW, in place of generating
    #[arg(long, conflicts_with_all = ["context", "prompt_len"])]
    training: bool,
    /// Sequences [default: 8, for training 4]
    #[arg(long, value_name = "SEQUENCES")]
    batch: Option<usize>,
    /// Tokens that the cache has room for, per sequence [default: the model's context, at most 512]
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,
    /// Tokens of each prompt [default: 64]
    #[arg(long, value_name = "TOKENS")]
    prompt_len: Option<usize>,
    /// Tokens of each sequence that is trained on [default: 128]
    #[arg(long, value_name = "TOKENS", requires = "training")]
    seq: Option<usize>,
    #[command(flatten)]
    memory: MemoryFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Serialize)]
struct Document {
    model: String,
    work: &'static str,
    dtype: String,
    batch: usize,
    /// Of each prompt, or of each sequence that is trained on.
    tokens: usize,
    /// Room in the cache; `None` for training.
    context: Option<usize>,
    /// The limit that was asked for.
    device_memory: Option<u64>,
    /// Kinds, scratch memory as measured on one layer, and the device.
    kinds: Vec<KindBytes>,
    /// `None` with a limit: nothing is looked for then.
    wall: Option<Found>,
    #[serde(skip)]
    comparison: Comparison,
}

/// The wall, as it was found.
#[derive(Debug, Serialize)]
struct Found {
    smallest: Compared,
    step: u64,
    tried: Vec<(u64, bool)>,
    /// The message of a run on a device that is one step too small.
    message: String,
}

impl Wall {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let (plot, limit) = (self.output.plot()?, self.memory.device_memory()?);
        let described = Described::from_flags(&self.model, &self.device)?;
        if !described.device.is_cpu() {
            return Err(
                setting("--device", "a GPU", "cpu: the limit is checked on bytes that are counted there").into()
            );
        }
        let work = self.work(described.config.context)?;
        let formula = work.predicted(&described.config, described.dtype)?;
        if formula.device > MOST {
            let expected = "at most 8 GiB are run; `cargo ch1 memory` predicts any size";
            return Err(setting("the model's memory", &Bytes(formula.device).to_string(), expected).into());
        }
        let guess = match self.output.predict {
            true => ask::number(&format!("How many MiB does {} of this model take?", work.name()))?,
            false => None,
        };
        let subject = Subject { described, random: self.random };
        let document = self.find(&subject, work, limit)?;
        if let Some(path) = plot {
            let title = format!("The wall of {}: {}", short(&document.model), work.name());
            bars_by_kind(title, &document.kinds).write(path).context("drawing the plot")?;
        }
        if self.output.json {
            return write_json(out, &document);
        }
        document.show(out)?;
        let held = document.kinds.last().and_then(|device| device.peak);
        if let (Some(guess), Some(held)) = (guess, held) {
            writeln!(out, "\n{}", ask::beside(guess * f64::from(1 << 20), held as f64, Unit::Bytes))?;
        }
        Ok(())
    }

    fn work(&self, available: usize) -> Result<Work, Error> {
        let at_most = |name, value: usize, most: usize, whose: &str| match value {
            value if (1..=most).contains(&value) => Ok(value),
            value => Err(setting(name, &value.to_string(), &format!("from 1 to {whose} {most}"))),
        };
        let batch = match (self.batch, self.training) {
            (Some(0), _) => return Err(setting("--batch", "0", "a whole number of sequences from 1 up")),
            (batch, training) => batch.unwrap_or(if training { 4 } else { 8 }),
        };
        if self.training {
            let seq = at_most("--seq", self.seq.unwrap_or(available.min(128)), available, "the model's context,")?;
            return Ok(Work::Training { batch, seq });
        }
        let context =
            at_most("--context", self.context.unwrap_or(available.min(512)), available, "the model's context,")?;
        let prompt = at_most("--prompt-len", self.prompt_len.unwrap_or(context.min(64)), context, "the --context,")?;
        Ok(Work::Inference { batch, prompt, context })
    }

    fn find(&self, subject: &Subject, work: Work, limit: Option<u64>) -> anyhow::Result<Document> {
        let progress = Progress::spinner("running");
        let held = attempt(subject, work, limit)?
            .held()
            .with_context(|| format!("{} does not fit on the device", work.name()))?;
        let predicted = predicted(subject, work)?;
        let wall = match limit {
            Some(_) => None,
            None => Some(find_wall(subject, work, predicted.device, held.device().peak, &progress)?),
        };
        let (batch, tokens, context) = match work {
            Work::Inference { batch, prompt, context } => (batch, prompt, Some(context)),
            Work::Training { batch, seq } => (batch, seq, None),
        };
        Ok(Document {
            model: self.model.model.clone().unwrap_or_else(|| BUNDLED.to_owned()),
            work: work.name(),
            dtype: subject.described.dtype.as_str().to_owned(),
            batch,
            tokens,
            context,
            device_memory: limit,
            kinds: kinds(&predicted, &held),
            wall,
            comparison: predicted.compare(Some(&held)).with(within(
                "device",
                predicted.device,
                Some(held.device().peak),
            )),
        })
    }
}

fn setting(name: &'static str, found: &str, expected: &str) -> Error {
    Error::Setting { name, found: found.to_owned(), expected: expected.to_owned() }
}

/// Runs on a device that is too small for what was `held`, then looks for the smallest that is not.
fn find_wall(subject: &Subject, work: Work, predicted: u64, held: u64, progress: &Progress) -> anyhow::Result<Found> {
    let step = (predicted / STEP).max(1);
    let too_small = attempt(subject, work, Some(held.saturating_sub(step)))?;
    let message = match too_small {
        Attempt::OutOfMemory(error) => error.to_string(),
        Attempt::Fits(_) => anyhow::bail!("{} holds less in a second run than in the first", work.name()),
    };
    let Smallest { bytes, tried } = smallest(predicted, step, |limit| {
        progress.say(format!("running with {}", Bytes(limit)));
        progress.advance(1);
        Ok::<_, lab::Error>(matches!(attempt(subject, work, Some(limit))?, Attempt::Fits(_)))
    })?;
    Ok(Found { smallest: within("smallest device", predicted, Some(bytes)), step, tried, message })
}

fn kinds(predicted: &Predicted, held: &Snapshot) -> Vec<KindBytes> {
    let kind =
        |&(kind, predicted): &(Kind, u64)| KindBytes { kind: kind.name(), predicted, peak: Some(held.of(kind).peak) };
    let device = KindBytes { kind: "device", predicted: predicted.device, peak: Some(held.device().peak) };
    predicted.kinds.iter().map(kind).chain([device]).collect()
}

impl Document {
    fn show(&self, out: &mut Output) -> anyhow::Result<()> {
        let Self { model, dtype, batch, tokens, .. } = self;
        match self.context {
            Some(context) => writeln!(
                out,
                "{model}, {dtype}, one thread: generating for {batch} prompts of {tokens} tokens, room for {context} each\n"
            )?,
            None => writeln!(
                out,
                "{model}, {dtype}, one thread: two steps of training with AdamW on {batch} x {tokens} tokens\n"
            )?,
        }
        writeln!(out, "{}\n", self.comparison)?;
        writeln!(
            out,
            "workspace: scratch of the matrix library. It depends on the processor, not on the number of layers: the\n\
             predicted bytes were measured on a single layer. All other predictions are formulas.\n"
        )?;
        if !self.comparison.all_hold() {
            writeln!(
                out,
                "The formulas leave out the descriptors of tensors, some hundred bytes each: with few tokens they are more than 2 %\n\
                 of the activations.\n"
            )?;
        }
        if let (Some(limit), Some(device)) = (self.device_memory, self.kinds.last()) {
            let (limit, held) = (Bytes(limit), Bytes(device.peak.unwrap_or(0)));
            writeln!(out, "It fits: {held} were held at once, the device has {limit}.\n")?;
        }
        if let Some(wall) = &self.wall {
            wall.show(out)?;
        }
        self.notice(out)
    }

    /// What is largest, and which question is about dividing it.
    fn notice(&self, out: &mut Output) -> anyhow::Result<()> {
        let measured = |kind: &&KindBytes| kind.peak.unwrap_or(0);
        let Some((device, kinds)) = self.kinds.split_last() else { return Ok(()) };
        let Some(largest) = kinds.iter().max_by_key(measured) else { return Ok(()) };
        let share = measured(&largest) as f64 / measured(&device).max(1) as f64;
        writeln!(
            out,
            "what to notice: the largest part is {}, {} of the device",
            largest.kind,
            numbers::percent(share)
        )?;
        for kind in kinds {
            if let Some(remedy) = remedy(kind.kind) {
                writeln!(out, "  {:<12} {remedy}", kind.kind)?;
            }
        }
        Ok(())
    }
}

impl Found {
    fn show(&self, out: &mut Output) -> anyhow::Result<()> {
        writeln!(out, "a device that is {} too small:\n", Bytes(self.step))?;
        for line in self.message.lines() {
            writeln!(out, "  | {line}")?;
        }
        let table = self.tried.iter().fold(Table::new(["device", "a run on it"]), |table, &(bytes, worked)| {
            table.row([
                format!("{} B", numbers::grouped(bytes)),
                if worked { "✓ done" } else { "✗ out of memory" }.to_owned(),
            ])
        });
        writeln!(out, "\nthe smallest device, by bisection to {}:\n\n{table}\n", Bytes(self.step))?;
        writeln!(out, "{}\n", Comparison::default().with(self.smallest.clone()))?;
        Ok(())
    }
}

/// On what a kind depends, and what divides it.
fn remedy(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "weights" => "fixed by the model; tensor parallelism (chapter 3) and pipeline parallelism (4) cut them",
        "gradients" => "one per weight; ZeRO (chapter 6) gives each rank a part",
        "optimiser" => "two moments per weight; ZeRO (chapter 6) gives each rank a part",
        "activations" => "grow with the tokens computed at once; data parallelism (chapter 2) divides those",
        "KV cache" => "grows with sequences and context; it is divided by heads (chapter 3) or by layers (4)",
        _ => return None,
    })
}
