//! Inference with SmolLM2-135M on one thread and on two: decode, prefill, memory, and the floors beside them.
//!
//! `cargo bench --profile dev -p ch1-single-gpu --bench inference`
//!
//! The model is read from `assets/downloads`; without it the bench says so and ends. Each number of threads is measured in a
//! process of its own, because candle reads it from the environment. Peers outside of the workspace (llama.cpp and PyTorch)
//! are run by hand in the same minutes: memory bandwidth of a shared machine drifts by half.
#![allow(missing_docs)]

#[path = "../measured/mod.rs"]
mod measured;

use anyhow::{Context as _, Result};
use candle_core::{DType, Device, Tensor};
use decoder::cache::{Contiguous, KvCache};
use decoder::source::Source;
use decoder::split::Split;
use decoder::{Context, Decoder, Parameter, Positions, Tokens, ops};
use lab::{Table, numbers};
use ledger::Bytes;
use measured::{ByOperation, ReadBandwidth, Stopwatch, Times, fastest, resident_bytes};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

const PROMPT: usize = 32;
const DECODED: usize = 128;
const PREFILL: usize = 512;
const REPETITIONS: usize = 4;
/// Contexts at which a decode step is timed.
const CONTEXTS: [usize; 4] = [128, 1024, 2048, 4096];
const STEPS_PER_CONTEXT: usize = 6;

/// Set for the process that measures.
const THREADS: &str = "BENCH_THREADS";

fn main() -> ExitCode {
    lab::program::run(|out| {
        let file = model_file();
        if !file.exists() {
            writeln!(out, "{} is not there: `cargo ch1 generate --model smollm2` says how to get it", file.display())?;
            return Ok(());
        }
        match std::env::var(THREADS) {
            Ok(threads) => {
                let threads: NonZeroUsize = threads.parse().context(THREADS)?;
                lab::program::in_pool(threads, || measure(&file, threads.get()))??.write(out)
            }
            Err(_) => [1, 2].into_iter().try_for_each(measure_apart),
        }
    })
}

fn model_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/downloads/smollm2-135m-instruct-q4_1.gguf")
}

/// Runs this program again with `threads` threads.
fn measure_apart(threads: usize) -> Result<()> {
    let threads = threads.to_string();
    let mut command = Command::new(std::env::current_exe()?);
    command.envs([(THREADS, &threads), ("RAYON_NUM_THREADS", &threads), ("CANDLE_NUM_THREADS", &threads)]);
    let status = command.status()?;
    anyhow::ensure!(status.success(), "the measurement with {threads} threads failed: {status}");
    Ok(())
}

/// All rates are of the best repetition.
struct Measured {
    threads: usize,
    /// Resident bytes during the decode, over weights + KV cache.
    resident: Option<u64>,
    weight_bytes: u64,
    kv_bytes: u64,
    /// Bytes per second.
    bandwidth: f64,
    /// Tokens per second.
    decode: f64,
    decode_bf16: f64,
    prefill: f64,
    prefill_times: Times,
    /// Seconds of the weight products of one token: ours, candle's.
    products: (f64, f64),
    /// Seconds of a step by context.
    steps: Vec<(usize, f64)>,
    kv_bytes_per_token: u64,
}

fn measure(file: &Path, threads: usize) -> Result<Measured> {
    let source = Source::resolve(file.to_str().context("a path in UTF-8")?, None, Path::new("."))?;
    let (config, weights) = (source.config()?, source.weights()?);
    let load = |dtype| Decoder::load(&config, &*weights, dtype, &Device::Cpu, &Split::whole());
    let model = load(DType::F32)?;
    let cache_bytes = |capacity: usize| 2 * (config.layers * config.kv_heads * config.head_dim * capacity * 4) as u64;
    decode(&model, threads)?;
    let resident = resident_bytes();

    let narrow = load(DType::BF16)?;
    let memory = ReadBandwidth::new();
    let (mut bandwidth, mut decode_f32, mut decode_bf16) = (0f64, f64::INFINITY, f64::INFINITY);
    let mut products = (f64::INFINITY, f64::INFINITY);
    for _ in 0..REPETITIONS {
        bandwidth = bandwidth.max(memory.measure(threads));
        decode_f32 = decode_f32.min(decode(&model, threads)?);
        decode_bf16 = decode_bf16.min(decode(&narrow, threads)?);
        products.0 = products.0.min(weight_products(&model, threads, ours)?);
        products.1 = products.1.min(weight_products(&model, threads, candles)?);
    }
    let (prefill, prefill_times) = prefill(&model, threads)?;
    Ok(Measured {
        threads,
        resident,
        weight_bytes: model.parameters().iter().map(|(parameter, _)| 4 * parameter.value().elem_count() as u64).sum(),
        kv_bytes: cache_bytes(PROMPT + DECODED),
        bandwidth,
        decode: DECODED as f64 / decode_f32,
        decode_bf16: DECODED as f64 / decode_bf16,
        prefill: PREFILL as f64 / prefill,
        prefill_times,
        products,
        steps: steps(&model, threads)?,
        kv_bytes_per_token: cache_bytes(1),
    })
}

fn prompt(length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| 7919 * i % 48_000 + 100).collect()
}

/// Seconds for [`DECODED`] greedy tokens after a prompt of [`PROMPT`].
fn decode(model: &Decoder, threads: usize) -> Result<f64> {
    let ctx = Context::inference();
    let mut cache = model.cache(1, PROMPT + DECODED)?;
    let prompt = prompt(PROMPT);
    let mut next = greedy(&model.next_token_logits(&ctx, &tokens(&prompt, 0)?, Some(&mut cache))?)?;
    let watch = Stopwatch::start();
    for position in PROMPT..PROMPT + DECODED {
        next = greedy(&model.next_token_logits(&ctx, &tokens(&[next], position)?, Some(&mut cache))?)?;
    }
    Ok(watch.seconds(threads))
}

fn tokens(ids: &[u32], position: usize) -> Result<Tokens> {
    Ok(Tokens::new(&[ids], vec![position], &Device::Cpu)?)
}

fn greedy(logits: &Tensor) -> Result<u32> {
    let logits: Vec<f32> = logits.flatten_all()?.to_vec1()?;
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    Ok(best.map_or(0, |(id, _)| id as u32))
}

/// Seconds of the fastest prefill of [`PREFILL`] tokens, and where they went.
fn prefill(model: &Decoder, threads: usize) -> Result<(f64, Times)> {
    let clock = Arc::new(ByOperation::new(threads));
    let ctx = Context::inference().with_observer(clock.clone());
    let prompt = tokens(&prompt(PREFILL), 0)?;
    let (mut best, mut times) = (f64::INFINITY, Times::new());
    for _ in 0..REPETITIONS {
        let mut cache = model.cache(1, PREFILL)?;
        clock.take();
        let watch = Stopwatch::start();
        model.next_token_logits(&ctx, &prompt, Some(&mut cache))?;
        let seconds = watch.seconds(threads);
        if seconds < best {
            (best, times) = (seconds, clock.take());
        }
    }
    Ok((best, times))
}

/// Seconds of one decode step at each context.
fn steps(model: &Decoder, threads: usize) -> Result<Vec<(usize, f64)>> {
    let ctx = Context::inference();
    CONTEXTS
        .iter()
        .map(|&context| {
            let mut cache = full_cache(model, context)?;
            let token = tokens(&[1], context - 1)?;
            let step = || model.next_token_logits(&ctx, &token, Some(&mut cache)).map(drop);
            Ok((context, fastest(STEPS_PER_CONTEXT, threads, step)?))
        })
        .collect()
}

/// A cache whose every byte was written: memory that never was is not read from memory either.
fn full_cache(model: &Decoder, context: usize) -> Result<Contiguous> {
    let config = model.config();
    let mut cache = model.cache(1, context)?;
    let keys = Tensor::ones((1, context, config.kv_heads, config.head_dim), DType::F32, &Device::Cpu)?;
    for layer in 0..config.layers {
        cache.store(layer, &keys, &keys, &Positions::from_zero(1, context))?;
    }
    Ok(cache)
}

/// Seconds to multiply one row by every matrix of the model.
fn weight_products(model: &Decoder, threads: usize, product: fn(&Tensor, &Parameter) -> Result<Tensor>) -> Result<f64> {
    let matrices: Vec<(Parameter, Tensor)> = model
        .parameters()
        .into_iter()
        .filter(|(parameter, _)| parameter.value().rank() == 2)
        .map(|(parameter, _)| {
            let x = Tensor::ones((1, parameter.value().dim(1)?), parameter.value().dtype(), &Device::Cpu)?;
            Ok((parameter, x))
        })
        .collect::<Result<_>>()?;
    fastest(3, threads, || matrices.iter().try_for_each(|(weight, x)| product(x, weight).map(drop)))
}

fn ours(x: &Tensor, weight: &Parameter) -> Result<Tensor> {
    Ok(ops::linear(&Context::inference(), x, weight)?)
}

fn candles(x: &Tensor, weight: &Parameter) -> Result<Tensor> {
    Ok(x.matmul(&weight.value().t()?)?)
}

impl Measured {
    fn write(&self, out: &mut impl Write) -> Result<()> {
        let plural = if self.threads == 1 { "" } else { "s" };
        writeln!(out, "SmolLM2-135M, {} thread{plural}", self.threads)?;
        let floor = self.bandwidth / self.weight_bytes as f64;
        let rate = |tokens: f64| numbers::rate(tokens, "tokens");
        let mut table = Table::new(["what", "measured", "compared with", "ratio"]);
        table.push([
            "decode, f32, context 32 → 160".into(),
            rate(self.decode),
            format!("weights once at {}: {}", numbers::bandwidth(self.bandwidth), rate(floor)),
            numbers::ratio(self.decode / floor),
        ]);
        table.push([
            "decode, bf16 weights".into(),
            rate(self.decode_bf16),
            "f32".into(),
            numbers::ratio(self.decode_bf16 / self.decode),
        ]);
        table.push([
            "weight products of a token".into(),
            numbers::seconds(self.products.0),
            format!("candle's: {}", numbers::seconds(self.products.1)),
            numbers::ratio(self.products.1 / self.products.0),
        ]);
        table.push(["prefill of 512".into(), rate(self.prefill), String::new(), String::new()]);
        if let Some(resident) = self.resident {
            let needed = self.weight_bytes + self.kv_bytes;
            table.push([
                "anonymous resident memory".into(),
                Bytes(resident).to_string(),
                format!("weights + KV cache: {}", Bytes(needed)),
                numbers::ratio(resident as f64 / needed as f64),
            ]);
        }
        writeln!(out, "{table}")?;
        self.write_steps(out)?;
        self.write_prefill(out)
    }

    fn write_steps(&self, out: &mut impl Write) -> Result<()> {
        let mut table = Table::new(["context", "decode step", "at least"]);
        let (base, first) = self.steps.first().copied().unwrap_or_default();
        for &(context, seconds) in &self.steps {
            let keys = ((context - base) as u64 * self.kv_bytes_per_token) as f64;
            table.push([
                context.to_string(),
                numbers::seconds(seconds),
                numbers::seconds(first + keys / self.bandwidth),
            ]);
        }
        writeln!(
            out,
            "at least: the first step, and reading {} more per token of context\n{table}",
            Bytes(self.kv_bytes_per_token)
        )?;
        Ok(())
    }

    fn write_prefill(&self, out: &mut impl Write) -> Result<()> {
        let total: f64 = self.prefill_times.values().sum();
        let mut parts: Vec<_> = self.prefill_times.iter().collect();
        parts.sort_by(|a, b| b.1.total_cmp(a.1));
        let mut table = Table::new(["prefill", "ms", "share"]);
        for ((name, _), seconds) in parts {
            table.push([(*name).to_owned(), format!("{:.1}", seconds * 1e3), numbers::percent(seconds / total)]);
        }
        writeln!(out, "{table}")?;
        Ok(())
    }
}
