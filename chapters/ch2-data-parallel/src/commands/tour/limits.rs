//! Stops 5 and 6: what communication costs, and what data parallelism does not help against.

use super::{Visit, bundled};
use crate::commands::memory::run as held;
use crate::commands::scale::published::Published;
use crate::commands::scale::run as scaled;
use crate::commands::scale::{Joined, alone};
use crate::memory::{Attempt, Job};
use anyhow::Context as _;
use candle_core::DType;
use ch1_single_gpu::wall::Subject;
use collective::{Algorithm, ClockKind, Options, Roofline};
use decoder::shape::hardware::{Hardware, Precision};
use decoder::shape::published;
use lab::compared::Unit;
use lab::flags::{BUNDLED, RandomFlags};
use lab::numbers;
use ledger::Bytes;

const GPU: &str = "H100";
/// The share of its peak that the GPU reaches.
const REACHED: f64 = 0.5;
const MODEL: &str = "Llama 3 8B";
/// Tokens per rank and step.
const TOKENS: u64 = 8192;
/// What runs here.
const LOAD: scaled::Load = scaled::Load { most: 4, rows: 1, seq: 32 };
/// Of the wall.
const DP: [usize; 3] = [1, 2, 8];
const BATCH: (usize, usize) = (8, 64);

impl Visit<'_> {
    pub(super) fn the_link(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F32)?;
        let gpu = Hardware::named(GPU)?;
        let published = Published::of(self.core, &published(MODEL)?, (GPU, REACHED), TOKENS, &alone())?;
        let even = published.break_even("InfiniBand").context("InfiniBand is a preset")?;
        let guide = &mut self.guide;
        guide.stop("Where the link eats the gain")?;
        let guess = guide.question(&format!(
            "{MODEL} in 16 bits, on {GPU} joined by InfiniBand (50 GB/s). With how many tokens per rank and step does a rank compute \
             as long as it communicates, so that half of it is lost?"
        ))?;
        guide.prediction(&format!(
            "{}: 6 FLOP per parameter and token, 2 · 2 bytes per parameter and step: about 2/3 of FLOP/s over bytes/s, whatever the \
             size of the model.",
            numbers::count(even)
        ))?;
        let joined: Vec<Joined> =
            alone().into_iter().filter(|joined| ["NVLink", "Ethernet"].contains(&joined.name.as_str())).collect();
        let roofline = Roofline {
            peak: gpu.peak(Precision::F32)? as f64,
            bandwidth: gpu.bandwidth.get() as f64,
            efficiency: REACHED,
        };
        let options =
            Options { algorithm: Algorithm::Ring, clock: ClockKind::Roofline(roofline), ..Options::default() };
        let runs = scaled::Runs::of(self.core, (&described, BUNDLED), &joined, LOAD, &options)?;
        guide.show(&runs.table())?;
        guide.show(&runs.comparison())?;
        guide.labelled("By formula", &published.text())?;
        guide.show(&published.table())?;
        guide.measured(
            "The formula's step is the clock's, on real ranks of the bundled model. On GPUs that model loses everywhere: it has too \
             little to compute between two all-reduces.",
            &guess,
            even,
            Unit::Count,
        )?;
        guide.notice(
            "Small gradients pay latency, 2(p - 1) times per parameter; large ones pay bandwidth. More tokens per rank and step \
             make both cheaper; more ranks at the same global batch do the opposite.",
            "cargo ch2 scale; cargo ch2 scale --model llama-3-8b --plot out/ch2/scale.svg",
        )?;
        published.chart().write(&self.figure("scale.svg"))?;
        Ok(())
    }

    pub(super) fn the_wall(&mut self) -> anyhow::Result<()> {
        let subject = Subject { described: bundled(DType::F32)?, random: RandomFlags::default() };
        let (batch, seq) = BATCH;
        let guide = &mut self.guide;
        guide.stop("The wall again")?;
        let guess = guide.question(&format!(
            "Training the bundled model on one batch of {batch} x {seq} tokens: how many MiB can a device have at most so that it is too \
             small, however many ranks divide the batch?"
        ))?;
        let load = held::Load { dp: &DP, batch, seq, device_memory: None };
        let runs = held::Runs::of(self.core, (&subject, BUNDLED), load)?;
        let floor = Bytes(runs.floor);
        guide.prediction(&format!(
            "{floor}: weights, gradients and two moments per parameter, 16 bytes each in f32. All of them are whole on every rank."
        ))?;
        guide.show(&runs.table())?;
        let limit = runs.floor;
        let options = Options { device_memory: Some(limit), ..Options::default() };
        let mut failed = Vec::new();
        for dp in DP {
            if let Attempt::OutOfMemory { message, .. } =
                (Job { batch, seq, dp }).attempt(self.core, &subject, &options)?
            {
                failed.push((dp, message));
            }
        }
        if let Some((dp, message)) = failed.last() {
            // The ledger of the error's message, without the sentences around it, which are wider than the tour.
            let ledger: Vec<&str> = message.lines().skip(1).filter(|line| !line.contains("hold less")).collect();
            let text = format!("devices of {floor}, dp {dp}: out of device memory; held were:\n{}", ledger.join("\n"));
            guide.show(&text)?;
        }
        let text = if failed.len() == DP.len() {
            format!("On devices of {floor} training ran out of memory with {} ranks: with any number.", several(&DP))
        } else {
            format!("On devices of {floor} only {} of {} runs ran out of memory.", failed.len(), DP.len())
        };
        guide.measured(&text, &guess, floor.mebibytes(), Unit::Number)?;
        guide.notice(
            "Only the activations shrink with the number of ranks. A 70B model takes 1,129 GB before its first activation, on each \
             GPU. Chapter 3 divides the matrices, chapter 4 the layers, chapter 6 gives each replica a part of the state (ZeRO).",
            "cargo ch2 memory; cargo ch2 memory --device-memory 24MiB",
        )?;
        runs.bars().write(&self.figure("memory.svg"))?;
        Ok(())
    }
}

/// `1, 2 and 8`.
fn several(numbers: &[usize]) -> String {
    let text: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    match text.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => text.concat(),
    }
}
