//! `cargo ch1 memory`: what a model holds, predicted and measured, and how many devices that takes at least.

pub(super) mod figure;

use crate::memory::{Plan, Predicted, Work};
use anyhow::Context as _;
use candle_core::DType;
use clap::Args;
use decoder::Error;
use decoder::shape::hardware::{self, Hardware};
use decoder::shape::{Footprint, PublishedModel, published};
use lab::compared::Unit;
use lab::flags::{BUNDLED, DeviceFlags, ModelFlags, OutputFlags, RandomFlags};
use lab::loaded::Described;
use lab::program::{Output, in_pool};
use lab::subject::Subject;
use lab::{Table, ask, numbers};
use ledger::{Bytes, Kind, Ledger, Snapshot};
use serde::Serialize;
use std::io::Write;

/// Shown when no model is named.
const SHOWN: [&str; 8] = [
    "Llama 3.1 8B",
    "Qwen2.5 32B",
    "Mixtral 8x7B",
    "Llama 3.1 70B",
    "Mixtral 8x22B",
    "Qwen3 235B-A22B",
    "Llama 3.1 405B",
    "DeepSeek-V3",
];
/// The recurring case of every chapter: 32K tokens, 20 users.
const INFERENCE: (u64, u64) = (32 << 10, 20);
/// Tokens of a sequence and sequences that are trained on at once.
const TRAINING: (u64, u64) = (4096, 1);
/// Longest context that is run unless `--context` asks for more.
const RUN: usize = 1024;
/// More than this is predicted but not run.
const MEASURED: u64 = 8 << 30;

/// What `cargo ch1 memory` takes.
#[derive(Args, Debug, Default)]
pub(super) struct Memory {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    random: RandomFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Published device [default: H100; all of them for a published model]
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// Tokens per sequence [default: 32768, for training 4096; for a loaded model its own, at most 1024]
    #[arg(long, value_name = "TOKENS")]
    context: Option<u64>,
    /// Sequences [default: 20, for training 1; for a loaded model 1]
    #[arg(long, value_name = "SEQUENCES")]
    batch: Option<u64>,
    /// Training with AdamW, in place of generating
    #[arg(long)]
    training: bool,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Serialize)]
struct Document {
    loaded: Option<Loaded>,
    published: Vec<Row>,
}

/// A model that was loaded: bytes by kind.
#[derive(Debug, Serialize)]
struct Loaded {
    model: String,
    context: u64,
    batch: u64,
    dtype: String,
    kinds: Vec<KindBytes>,
    #[serde(skip)]
    predicted: Predicted,
    #[serde(skip)]
    snapshot: Option<Snapshot>,
    #[serde(skip)]
    why_not: Option<&'static str>,
}

/// Bytes of one kind.
#[derive(Debug, Serialize)]
pub(super) struct KindBytes {
    pub(super) kind: &'static str,
    pub(super) predicted: u64,
    /// `None` where nothing was measured.
    pub(super) peak: Option<u64>,
}

/// A published model on a published device.
#[derive(Debug, Serialize)]
struct Row {
    model: String,
    gpu: String,
    gpu_memory: u64,
    context: u64,
    batch: u64,
    dtype: String,
    weights: u64,
    kv_cache: u64,
    gradients: u64,
    optimiser: u64,
    activations: u64,
    total: u64,
    devices: u64,
}

impl Memory {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let subject = Subject::of(&self.model, &self.device)?;
        let guess = match self.output.predict {
            true => ask::number("How many H100 (80 GB) does Llama 3.1 70B take with 20 users at 32K tokens?")?,
            false => None,
        };
        let document = match &subject {
            Subject::Published(model) => {
                Document { loaded: None, published: self.rows(&[(**model).clone()], &self.gpus()?)? }
            }
            Subject::Loaded(described) => {
                let gpu = Hardware::named(self.gpu.as_deref().unwrap_or("H100"))?;
                let models = SHOWN.iter().map(|name| published(name)).collect::<Result<Vec<_>, _>>()?;
                // A context that is meant for the loaded model is none for the published ones.
                let published = if self.model.model.is_none() { self.rows(&models, &[gpu])? } else { Vec::new() };
                Document { loaded: Some(self.loaded(described)?), published }
            }
        };
        if let Some(path) = plot {
            self.draw(&subject, &document, path).context("drawing the plot")?;
        }
        if self.output.json {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            writeln!(out)?;
            return Ok(());
        }
        self.show(&document, out)?;
        let case = document.published.iter().find(|row| row.model == "Llama 3.1 70B");
        if let (Some(guess), Some(row)) = (guess, case) {
            writeln!(out, "{}", ask::beside(guess, row.devices as f64, Unit::Count))?;
        }
        Ok(())
    }

    fn gpus(&self) -> Result<Vec<Hardware>, Error> {
        self.gpu.as_deref().map_or_else(hardware::all, |name| Ok(vec![Hardware::named(name)?]))
    }

    fn plan(&self) -> Plan {
        let (context, batch) = if self.training { TRAINING } else { INFERENCE };
        Plan {
            context: self.context.unwrap_or(context),
            batch: self.batch.unwrap_or(batch),
            dtype: self.device.dtype(DType::BF16),
            training: self.training,
        }
    }

    fn rows(&self, models: &[PublishedModel], gpus: &[Hardware]) -> Result<Vec<Row>, Error> {
        let plan = self.plan();
        let mut rows = Vec::new();
        for model in models {
            let held = plan.footprint(&model.shape)?;
            for gpu in gpus {
                rows.push(row(model, gpu, &plan, &held)?);
            }
        }
        Ok(rows)
    }

    fn loaded(&self, described: &Described) -> anyhow::Result<Loaded> {
        let available = described.config.context;
        let context = match self.context {
            None => available.min(RUN),
            Some(context) => usize::try_from(context)
                .ok()
                .filter(|context| (1..=available).contains(context))
                .ok_or_else(|| Error::Setting {
                    name: "--context",
                    found: context.to_string(),
                    expected: format!("from 1 to the model's {available}"),
                })?,
        };
        let batch = self.batch.unwrap_or(1);
        let sequences = usize::try_from(batch)?;
        let work = match self.training {
            true => Work::Training { batch: sequences, seq: context },
            false => Work::Inference { batch: sequences, prompt: context, context },
        };
        let predicted = work.predicted(&described.config, described.dtype)?;
        let (snapshot, why_not) = match predicted.device {
            total if total <= MEASURED => (self.measure(described, work)?, None),
            _ => (None, Some("more than 8 GiB are not run")),
        };
        let peak = |kind| snapshot.as_ref().map(|snapshot| snapshot.of(kind).peak);
        let bytes = |&(kind, predicted): &(Kind, u64)| KindBytes { kind: kind.name(), predicted, peak: peak(kind) };
        Ok(Loaded {
            model: self.model.model.clone().unwrap_or_else(|| BUNDLED.to_owned()),
            context: context as u64,
            batch,
            dtype: described.dtype.as_str().to_owned(),
            kinds: predicted.kinds.iter().map(bytes).collect(),
            predicted,
            snapshot,
            why_not,
        })
    }

    /// `None` where nothing is measured.
    fn measure(&self, described: &Described, work: Work) -> anyhow::Result<Option<Snapshot>> {
        let ledger = Ledger::claim("the model")?;
        let _entered = ledger.enter();
        in_pool(lab::startup::threads()?, || work.run(described, self.random))?
            .context("running the model (--random SEED needs no weights)")?;
        Ok(ledger.snapshot())
    }

    fn show(&self, document: &Document, out: &mut Output) -> anyhow::Result<()> {
        if let Some(loaded) = &document.loaded {
            let Loaded { model, context, batch, dtype, .. } = loaded;
            let doing = if self.training { "training with AdamW on" } else { "reading" };
            writeln!(out, "{model}, {dtype}, {doing} {batch} x {context} tokens\n")?;
            writeln!(out, "{}\n", loaded.predicted.compare(loaded.snapshot.as_ref()))?;
            if let Some(why_not) = loaded.why_not {
                writeln!(out, "not measured: {why_not}\n")?;
            }
            if let Some(snapshot) = &loaded.snapshot {
                let [all, scratch] = [snapshot.device(), snapshot.of(Kind::Workspace)].map(|usage| Bytes(usage.peak));
                writeln!(
                    out,
                    "{all} were held at once, {scratch} of scratch memory among them: each thread packs blocks of the matrices\n\
                     that it multiplies, as large as its cache. The kinds above do not depend on the machine.\n"
                )?;
            }
        }
        if let Some(first) = document.published.first() {
            let doing = if self.training { "training with AdamW on" } else { "generating for" };
            writeln!(
                out,
                "published models, {}, {doing} {} x {} tokens\n",
                first.dtype,
                first.batch,
                numbers::grouped(first.context)
            )?;
            writeln!(out, "{}\n", self.published_table(&document.published))?;
            writeln!(out, "Devices at least: as if the bytes could be split evenly and nothing else took room.")?;
        }
        Ok(())
    }

    fn published_table(&self, rows: &[Row]) -> Table {
        let parts = parts(self.training);
        let names = parts.iter().map(|(name, _)| *name);
        let mut table =
            Table::new(["model", "device", "its memory"].into_iter().chain(names).chain(["all", "devices"]));
        for row in rows {
            let sizes = parts.iter().map(|(_, part)| part(row)).chain([row.total]).map(gigabytes);
            let names = [row.model.clone(), row.gpu.clone(), gigabytes(row.gpu_memory)];
            table.push(names.into_iter().chain(sizes).chain([numbers::grouped(row.devices)]));
        }
        table
    }
}

type Part = (&'static str, fn(&Row) -> u64);

fn parts(training: bool) -> Vec<Part> {
    let weights: Part = ("weights", |row| row.weights);
    if training {
        let gradients: Part = ("gradients", |row| row.gradients);
        vec![weights, gradients, ("optimiser", |row| row.optimiser), ("activations", |row| row.activations)]
    } else {
        vec![weights, ("KV cache", |row| row.kv_cache)]
    }
}

fn row(model: &PublishedModel, gpu: &Hardware, plan: &Plan, held: &Footprint) -> Result<Row, Error> {
    Ok(Row {
        model: model.name.clone(),
        gpu: gpu.name.clone(),
        gpu_memory: gpu.memory.get(),
        context: plan.context,
        batch: plan.batch,
        dtype: plan.dtype.as_str().to_owned(),
        weights: held.weights,
        kv_cache: held.kv_cache,
        gradients: held.gradients,
        optimiser: held.optimiser,
        activations: held.activations,
        total: held.total()?,
        devices: held.devices_needed(gpu)?,
    })
}

/// In the 10⁹ bytes that makers of devices count in.
fn gigabytes(bytes: u64) -> String {
    format!("{} GB", numbers::plain(bytes as f64 / 1e9))
}
