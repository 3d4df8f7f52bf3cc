//! `cargo ch1 kv`: bytes of the KV cache, and what a decode step costs with it and without it.

pub(super) mod figure;

use crate::core::Core;
use crate::kv::{Steps, allocated, crossing, decode_steps};
use anyhow::Context as _;
use candle_core::DType;
use clap::{Args, ValueEnum};
use decoder::shape::{ModelShape, published};
use decoder::split::Split;
use decoder::{Decoder, Error};
use lab::compared::Unit;
use lab::flags::{BUNDLED, DeviceFlags, ModelFlags, OutputFlags, RandomFlags, WithFlags};
use lab::loaded::Described;
use lab::program::{Output, in_pool};
use lab::{Compared, Comparison, Table, ask, numbers};
use ledger::Bytes;
use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// Context of the table of published models.
const CONTEXT_32K: u64 = 32 << 10;
/// Its batches: one user, and the twenty of the recurring case.
const BATCHES: [u64; 2] = [1, 20];
/// Larger caches are predicted but not allocated.
const MEASURED: u64 = 512 << 20;
/// Longest context that is run unless `--context` asks for more.
const RUN: usize = 1024;
/// How long each step is measured.
const BUDGET: Duration = Duration::from_millis(60);

/// The published models that are shown: attention with as many key heads as heads, grouped, latent.
const PUBLISHED: [&str; 10] = [
    "GPT-3 175B",
    "Llama 2 7B",
    "Llama 2 70B",
    "Llama 3 8B",
    "Llama 3 70B",
    "Llama 3.1 405B",
    "Qwen2.5 7B",
    "Qwen2.5 72B",
    "Mixtral 8x7B",
    "DeepSeek-V3",
];

/// What `cargo ch1 kv` takes.
#[derive(Args, Debug)]
pub(super) struct Kv {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    random: RandomFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Longest context that is run [default: the model's, at most 1024]
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,
    /// Sequences whose cache is made, beside 1
    #[arg(long, value_name = "SEQUENCES", default_value_t = 20)]
    batch: usize,
    /// What --plot draws
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Figure::Flops)]
    figure: Figure,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// What the plot shows over the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// FLOPs of a decode step.
    Flops,
    /// Seconds of a decode step.
    Time,
    /// Bytes of the cache of published models, at 16 bits.
    Published,
}

#[derive(Debug, Serialize)]
struct Document {
    model: String,
    bytes_per_token: u64,
    weight_bytes: u64,
    crossing: Option<u64>,
    bytes: Comparison,
    steps: Vec<Steps>,
    published: Vec<Row>,
}

/// A published model at 32K tokens, everything in 16 bits.
#[derive(Debug, Serialize)]
struct Row {
    model: String,
    context: u64,
    bytes_per_token: u64,
    weight_bytes: u64,
    kv_bytes: [u64; 2],
    crossing: Option<u64>,
}

impl Kv {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let shape = ModelShape::from_config(&described.config)?;
        let contexts = self.contexts(described.config.context)?;
        if self.batch == 0 {
            return Err(setting("--batch", "0", "a whole number of sequences from 1 up").into());
        }
        let published = PUBLISHED.iter().map(|name| row(name)).collect::<Result<Vec<_>, _>>()?;
        let guess = match self.output.predict {
            true => ask::number("From how many tokens on does a step read more keys and values than weights?")?,
            false => None,
        };
        let model = self
            .random
            .load(&described, &Split::whole())
            .context("loading the model (--random SEED needs no weights)")?;
        let (bytes, steps) = in_pool(lab::startup::threads()?, || {
            let bytes = compare_bytes(&core, &model, &contexts, self.batch)?;
            Ok::<_, anyhow::Error>((bytes, decode_steps(&model, &contexts, BUDGET)?))
        })??;
        let document = Document {
            model: self.model.model.clone().unwrap_or_else(|| BUNDLED.to_owned()),
            bytes_per_token: shape.kv_bytes_per_token(model.activations())?,
            weight_bytes: shape.decode_weight_bytes(described.dtype)?,
            crossing: crossing(&shape, described.dtype, model.activations())?,
            bytes,
            steps,
            published,
        };
        if let Some(path) = plot {
            figure::draw(self.figure, &document, &shape, path).context("drawing the plot")?;
        }
        if self.output.json {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            writeln!(out)?;
            return Ok(());
        }
        show(&document, out)?;
        if let (Some(guess), Some(tokens)) = (guess, document.crossing) {
            writeln!(out, "{}", ask::beside(guess, tokens as f64, Unit::Count))?;
        }
        Ok(())
    }

    /// Powers of two from 8 up, and the longest itself.
    fn contexts(&self, available: usize) -> anyhow::Result<Vec<usize>> {
        let longest = self.context.unwrap_or(available.min(RUN));
        if longest == 0 {
            return Err(setting("--context", "0", "a whole number of tokens from 1 up").into());
        }
        if longest > available {
            return Err(setting("--context", &longest.to_string(), &format!("at most the model's {available}")).into());
        }
        let powers = (3..usize::BITS).map(|power| 1usize << power).take_while(|&context| context < longest);
        Ok(powers.chain([longest]).collect())
    }
}

fn setting(name: &'static str, found: &str, expected: &str) -> Error {
    Error::Setting { name, found: found.to_owned(), expected: expected.to_owned() }
}

/// The cache's bytes by formula beside the ledger's, for one sequence and for the batch.
fn compare_bytes(core: &Core, model: &Decoder, contexts: &[usize], batch: usize) -> anyhow::Result<Comparison> {
    let mut comparison = Comparison::default();
    let mut batches = vec![1, batch];
    batches.dedup();
    for batch in batches {
        for &context in contexts.iter().rev().take(3).rev() {
            let predicted = (core.cache_bytes)(model.config(), context, batch, model.activations())?;
            let measured = if predicted <= MEASURED { allocated(model, context, batch)? } else { None };
            comparison.push(Compared::exact(format!("{batch} x {context} tokens"), predicted, measured, Unit::Bytes));
        }
    }
    Ok(comparison)
}

fn row(name: &str) -> Result<Row, Error> {
    let model = published(name)?;
    let shape = &model.shape;
    let [one, many] = BATCHES;
    let kv = |batch| shape.kv_bytes(CONTEXT_32K, batch, DType::F16);
    Ok(Row {
        context: shape.context.get(),
        bytes_per_token: shape.kv_bytes_per_token(DType::F16)?,
        weight_bytes: shape.weight_bytes(DType::F16)?,
        kv_bytes: [kv(one)?, kv(many)?],
        crossing: crossing(shape, DType::F16, DType::F16)?,
        model: model.name,
    })
}

fn show(document: &Document, out: &mut Output) -> anyhow::Result<()> {
    let bytes = |bytes| Bytes(bytes).to_string();
    writeln!(out, "{}: {} of keys and values per token\n", document.model, bytes(document.bytes_per_token))?;
    writeln!(out, "{}\n", document.bytes)?;
    writeln!(out, "{}\n", steps_table(&document.steps))?;
    let differing = document.steps.iter().flat_map(|steps| [&steps.cached, &steps.uncached]);
    let equal = differing.filter(|step| step.predicted != step.counted).count() == 0;
    writeln!(
        out,
        "FLOPs: {} the formula's",
        if equal { "✓ counted ones equal" } else { "✗ counted ones differ from" }
    )?;
    let weights = bytes(document.weight_bytes);
    match document.crossing {
        Some(tokens) => writeln!(
            out,
            "a step reads {weights} of weights; from {} tokens on it reads as many bytes of keys and values\n",
            numbers::grouped(tokens)
        )?,
        None => writeln!(out, "a step reads {weights} of weights, and never as many bytes of keys and values\n")?,
    }
    writeln!(out, "published models, weights and cache in 16 bits, at {} tokens:\n", numbers::grouped(CONTEXT_32K))?;
    writeln!(out, "{}", published_table(&document.published))?;
    Ok(())
}

fn steps_table(steps: &[Steps]) -> Table {
    let header =
        ["context", "with the cache", "of it attention", "time", "without", "of it attention", "time", "saved"];
    let mut table = Table::new(header);
    for Steps { context, cached, uncached } in steps {
        let cells = |step: &crate::kv::Step| {
            [
                numbers::flops(step.counted.total() as f64),
                numbers::flops(step.counted.attention as f64),
                numbers::seconds(step.timing.median),
            ]
        };
        let saved = numbers::ratio(uncached.timing.median / cached.timing.median);
        let rest = cells(cached).into_iter().chain(cells(uncached)).chain([saved]);
        table.push([context.to_string()].into_iter().chain(rest));
    }
    table
}

fn published_table(rows: &[Row]) -> Table {
    let [one, many] = BATCHES.map(|batch| format!("{batch} x 32K"));
    let header = ["model", "own context", "per token", "weights"].map(str::to_owned);
    let shares = [one.clone(), "of weights".into(), many, "of weights".into(), "as much read as weights from".into()];
    let mut table = Table::new(header.into_iter().chain(shares));
    for row in rows {
        let share = |kv: u64| numbers::percent(kv as f64 / row.weight_bytes as f64);
        let [one, many] = row.kv_bytes;
        table.push([
            row.model.clone(),
            numbers::grouped(row.context),
            Bytes(row.bytes_per_token).to_string(),
            Bytes(row.weight_bytes).to_string(),
            Bytes(one).to_string(),
            share(one),
            Bytes(many).to_string(),
            share(many),
            row.crossing
                .map_or_else(|| "never".to_owned(), |tokens| format!("{} tokens", numbers::count(tokens as f64))),
        ]);
    }
    table
}
