//! One rank against two stages, on this machine's real time: `cargo bench --profile dev -p ch4-pipeline-parallel`.
//!
//! A model of about 100 million parameters with random weights takes steps of 16 micro-batches: on one core, as chapter 1 does with
//! `--accumulate 16`, and on two cores as two stages of 1F1B and of ZB-H1. A rank is one core. The fastest of several steps counts, by
//! real time, and by the CPU time of each rank's thread: what other programs take from the cores is in the first and not in the second.

use anyhow::Context as _;
use candle_core::{DType, Device};
use ch4_pipeline_parallel::engine::{MicroBatch, Pipeline, Stage};
use ch4_pipeline_parallel::schedule::Kind;
use ch4_pipeline_parallel::stages::{LayerCosts, Stages};
use collective::{ClockKind, Options, launch};
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder};
use std::io::Write;
use std::num::NonZeroUsize;
use training::data::Batch;

const MICRO_BATCHES: usize = 16;
const SEQ: usize = 64;
const STEPS: usize = 3;

const CONFIG: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 768,
    "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 16384,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "rope_theta": 10000.0}"#;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

fn main() -> anyhow::Result<()> {
    lab::startup::keep_freed_memory();
    lab::startup::set_threads(NonZeroUsize::MIN)?;
    let config = Config::from_json(CONFIG, None, "the bench")?;
    let ids = |seed: usize| (0..MICRO_BATCHES * SEQ).map(|i| ((i * 7919 + seed) % config.vocab) as u32).collect();
    let batch = Batch { inputs: ids(1), targets: ids(2), rows: MICRO_BATCHES, seq: SEQ };
    let mut out = std::io::stdout();
    let millions = config.parameters() as f64 / 1e6;
    writeln!(out, "{millions:.0} M parameters, f32, {MICRO_BATCHES} micro-batches of {SEQ} tokens; seconds per step")?;
    for (name, clock) in [("real time", ClockKind::Wall), ("CPU time", ClockKind::Cpu)] {
        let mut one = f64::INFINITY;
        for (pp, kind) in [(1, Kind::OneForwardOneBackward), (2, Kind::OneForwardOneBackward), (2, Kind::ZbH1)] {
            let seconds = step(&config, &batch, pp, kind, clock)?;
            if pp == 1 {
                one = seconds;
            }
            writeln!(out, "{name}, {pp} ranks, {}: {seconds:.3}, {:.2} x one rank", kind.name(), one / seconds)?;
        }
    }
    Ok(())
}

/// Seconds of the fastest step, by the slowest rank.
fn step(config: &Config, batch: &Batch, pp: usize, kind: Kind, clock: ClockKind) -> anyhow::Result<f64> {
    let schedule = kind.schedule(pp, MICRO_BATCHES, 1)?;
    let stages = Stages::balanced(schedule.layout, pp, &LayerCosts::flops(config, SEQ)?)?;
    let pipeline = Pipeline::new(schedule, stages)?;
    let ranks = launch(pp, &Options { clock, ..Options::default() }, |rank| {
        let split = pipeline.stages().split(rank.rank());
        let model = Decoder::load(config, &Random::new(1), DType::F32, &Device::Cpu, &split)?;
        let context = Context::inference().with_split(split);
        let communicator = rank.communicator().as_ref();
        let stage = Stage { pipeline: &pipeline, communicator, clock: rank.clock(), model: &model, context: &context };
        let parts = MicroBatch::split(batch, MICRO_BATCHES, &Device::Cpu)?;
        let mut seconds = Vec::new();
        for _ in 0..STEPS {
            communicator.barrier()?;
            let start = rank.clock().now();
            stage.step(&parts, batch.count())?;
            seconds.push(rank.clock().now() - start);
        }
        Ok::<_, ch4_pipeline_parallel::Error>(seconds)
    })?;
    let slowest = |step: usize| ranks.iter().map(|seconds| seconds[step]).fold(0.0, f64::max);
    (0..STEPS).map(slowest).min_by(f64::total_cmp).context("no step")
}
