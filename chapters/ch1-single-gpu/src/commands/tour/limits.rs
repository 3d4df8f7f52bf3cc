//! Stops 5 to 7: what one device cannot hold, and what it cannot finish.

use super::Visit;
use crate::commands::memory::Memory;
use crate::commands::throughput::{duration, years};
use crate::memory::{Plan, Work};
use crate::throughput::{DAY, MONTH, Training, rate};
use crate::wall::{self, Attempt, Subject, attempt, smallest};
use anyhow::Context as _;
use candle_core::DType;
use decoder::shape::hardware::{Hardware, Precision};
use decoder::shape::published;
use lab::compared::Unit;
use lab::flags::{DeviceFlags, ModelFlags, RandomFlags};
use lab::loaded::Described;
use lab::roofline::Roofline;
use lab::{Compared, Comparison, Table, numbers};
use ledger::{Bytes, Kind, Ledger};

/// The recurring case of every chapter: this model, 32K tokens, 20 users.
const CASE: &str = "Llama 3.1 70B";
const GENERATING: Plan = Plan { context: 32 << 10, batch: 20, dtype: DType::BF16, training: false };
const TRAINING: Plan = Plan { context: 4096, batch: 1, dtype: DType::BF16, training: true };
/// Models beside it.
const HELD: [&str; 4] = ["Llama 3.1 8B", CASE, "Llama 3.1 405B", "DeepSeek-V3"];
/// Models whose training is timed; the last is asked for.
const TRAINED: [&str; 5] = ["SmolLM2 135M", "Llama 2 7B", "Llama 2 70B", "GPT-3 175B", "Llama 3.1 405B"];
const GPU: &str = "H100";
/// Share of the peak that training reaches.
const UTILISATION: f64 = 0.4;
/// What meets the wall.
const WALL: Work = Work::Inference { batch: 8, prompt: 64, context: 512 };
/// Tokens of a sequence.
const SEQUENCE: u64 = 4096;

impl Visit<'_> {
    pub(super) fn memory(&mut self) -> anyhow::Result<()> {
        let gpu = Hardware::named(GPU)?;
        let case = published(CASE)?;
        let guide = &mut self.guide;
        guide.stop("What must be held")?;
        let guess = guide.question(&format!(
            "{CASE} in 16 bits answers 20 users, each with 32K tokens of context. One {} has {}. How many are needed \
             at least?",
            gpu.name,
            gigabytes(gpu.memory.get())
        ))?;
        let held = GENERATING.footprint(&case.shape)?;
        guide.prediction(&format!(
            "{}: {} parameters · 2 bytes = {} of weights, and 20 · 32,768 tokens · {} bytes = {} of keys and values.",
            held.devices_needed(&gpu)?,
            numbers::grouped(case.shape.parameters()?.total()),
            gigabytes(held.weights),
            numbers::grouped(case.shape.kv_bytes_per_token(DType::BF16)?),
            gigabytes(held.kv_cache)
        ))?;
        let weights = self.shape.weight_bytes(self.described.dtype)?;
        let measured = Ledger::of_this_thread().current(Kind::Weights);
        let row = Compared::exact("weights of the bundled model", weights, measured, Unit::Bytes);
        let here = Comparison::default().with(row);
        guide.show(&format!("{}\n\n{here}", held_table(&gpu)?))?;
        let devices = held.devices_needed(&gpu)?;
        guide.measured(
            "The same formula on the model that is loaded here: equal, to the byte. The large ones cannot be loaded here, \
             which is the point.",
            &guess,
            devices as f64,
            Unit::Count,
        )?;
        guide.notice(
            "The weights alone do not fit, and with 20 users the cache is larger than the weights. Training takes several \
             times as much: gradients, AdamW's moments, activations.",
            "cargo ch1 memory; cargo ch1 memory --training; cargo ch1 memory --model llama-3.1-70b",
        )?;
        Memory::default().bars_over_context(&case)?.write(&self.figure("memory.svg"))?;
        Ok(())
    }

    pub(super) fn training_time(&mut self, here: &Roofline) -> anyhow::Result<()> {
        let gpu = Hardware::named(GPU)?;
        let rate = rate(&gpu, Precision::Bf16, UTILISATION)?;
        let trainings = TRAINED.map(training).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let (last, largest) = trainings.last().context("no model is timed")?;
        let guide = &mut self.guide;
        guide.stop("How long training takes")?;
        let guess = guide.question(&format!(
            "{last} was trained on {} tokens. How many years would one {} take, if it had the memory?",
            numbers::count(largest.tokens as f64),
            gpu.name
        ))?;
        let on_one = |training: &Training| training.seconds(rate) / DAY;
        guide.prediction(&format!(
            "{}: 6 · {} · {} = {:.2e} FLOP, at {} of {}.",
            duration(on_one(largest)),
            numbers::count(largest.parameters as f64),
            numbers::count(largest.tokens as f64),
            largest.flops,
            numbers::percent(UTILISATION),
            numbers::flop_rate(gpu.peak(Precision::Bf16)? as f64)
        ))?;
        let header = ["model", "tokens", "FLOP", "on one H100", "H100 for a month", "here, at its peak"];
        let mut table = Table::new(header);
        for (model, training) in &trainings {
            table.push([
                model.clone(),
                numbers::count(training.tokens as f64),
                format!("{:.2e}", training.flops),
                duration(on_one(training)),
                numbers::count((self.core.devices_for)(training, MONTH, rate)),
                duration(training.seconds(here.peak) / DAY),
            ]);
        }
        guide.show(&table)?;
        guide.measured(
            &format!(
                "This machine computes {} at most, as stop 2 measured it. For {last} the authors state 3.8e25 FLOP: the \
                 formula gives {:.1e}.",
                numbers::flop_rate(here.peak),
                largest.flops
            ),
            &guess,
            on_one(largest) / 365.25,
            Unit::Number,
        )?;
        guide.notice(
            "Memory is one reason to distribute, time is the other. \"H100 for a month\" divides as if dividing were free; \
             it is not, and what it costs is the subject of the chapters that follow.",
            "cargo ch1 throughput",
        )?;
        let title = format!("Training on one {} at {} of its bf16 peak", gpu.name, numbers::percent(UTILISATION));
        let days = trainings.iter().map(|(model, training)| (model.clone(), on_one(training)));
        years(title, days).write(&self.figure("throughput.svg"))?;
        Ok(())
    }

    pub(super) fn the_wall(&mut self) -> anyhow::Result<()> {
        let described =
            Described::from_flags(&ModelFlags::default(), &DeviceFlags { cpu: true, ..Default::default() })?;
        let subject = Subject { described, random: RandomFlags::default() };
        let Work::Inference { batch, context, .. } = WALL else { anyhow::bail!("the wall of the tour is inference") };
        let guide = &mut self.guide;
        guide.stop("The wall")?;
        let guess = guide.question(&format!(
            "A device is given less and less memory. How many MiB are the least on which the bundled model serves {batch} \
             users with {context} tokens each?"
        ))?;
        let predicted = wall::predicted(&subject, WALL)?.device;
        guide.prediction(&format!(
            "{}: weights, keys and values, activations and the scratch of the matrix library.",
            Bytes(predicted)
        ))?;
        let step = (predicted / 200).max(1);
        let mut last = None;
        let found = smallest(predicted, step, |limit| match attempt(&subject, WALL, Some(limit))? {
            Attempt::Fits(_) => Ok::<_, lab::Error>(true),
            Attempt::OutOfMemory(error) => {
                last = Some(error);
                Ok(false)
            }
        })?;
        let row = Compared::within("smallest device", predicted as f64, Some(found.bytes as f64), 0.02, Unit::Bytes);
        // The ledger of the error's message, without the sentences around it, which are wider than the tour.
        let ledger = last.map(|error| error.to_string()).unwrap_or_default();
        let ledger: Vec<&str> = ledger.lines().skip(1).filter(|line| !line.contains("hold less")).collect();
        let message = format!("\n\nout of device memory; held were:\n{}", ledger.join("\n"));
        guide.show(&format!("{}{message}", Comparison::default().with(row)))?;
        let mebibytes = Bytes(found.bytes).mebibytes();
        guide.measured(
            &format!(
                "{mebibytes:.1} MiB, found by {} real runs; the last one that failed stands above.",
                found.tried.len()
            ),
            &guess,
            mebibytes,
            Unit::Number,
        )?;
        guide.notice(
            "The error says what the memory was used for. More than half of it are keys and values: more users, or longer texts, \
             and the next device is too small as well.",
            "cargo ch1 wall; cargo ch1 wall --training",
        )?;
        Ok(())
    }
}

/// Bytes of published models, and how many devices they take.
fn held_table(gpu: &Hardware) -> anyhow::Result<Table> {
    let header = ["model", "weights", "KV cache", "generating", "devices", "training", "devices"];
    let mut table = Table::new(header);
    for name in HELD {
        let shape = published(name)?.shape;
        let (generating, training) = (GENERATING.footprint(&shape)?, TRAINING.footprint(&shape)?);
        table.push([
            name.to_owned(),
            gigabytes(generating.weights),
            gigabytes(generating.kv_cache),
            gigabytes(generating.total()?),
            generating.devices_needed(gpu)?.to_string(),
            gigabytes(training.total()?),
            training.devices_needed(gpu)?.to_string(),
        ]);
    }
    Ok(table)
}

/// The training of a published model.
fn training(name: &str) -> anyhow::Result<(String, Training)> {
    let model = published(name)?;
    let tokens = model.training.with_context(|| format!("no number of tokens is published for {name}"))?.tokens.get();
    Ok((model.name, Training::of(&model.shape, tokens, SEQUENCE)?))
}

/// In the 10⁹ bytes that makers of devices count in.
fn gigabytes(bytes: u64) -> String {
    format!("{} GB", numbers::plain(bytes as f64 / 1e9))
}
