//! What data parallelism costs on this machine: two replicas on two cores beside two processes that know nothing of each other.
//!
//! `cargo bench --profile dev -p ch2-data-parallel --bench replicas`
//!
//! The model is that of chapter 1's training bench (10.5 M parameters, 4 × 256 tokens per rank, AdamW, clipping at 1; optimiser included).
//! The layouts take turns, so that other work on the machine slows all of them; the ratio of one round counts, not a rate by itself.
#![allow(missing_docs)]

use anyhow::{Context as _, Result, ensure};
use candle_core::{DType, Device};
use ch2_data_parallel::train::{Replica, Settings};
use collective::{Algorithm, Options, launch};
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder};
use lab::{Table, numbers};
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;
use training::data::TokenData;
use training::optimiser::{AdamW, Rule};
use training::plan::Plan;
use training::run::Run;
use training::schedule::Schedule;

const ROWS: usize = 4;
const SEQUENCE: usize = 256;
const WARM_UP: u64 = 2;
const STEPS: u64 = 10;
const ROUNDS: usize = 3;
const VOCAB: usize = 8192;
/// Names of the layouts, also the argument that makes this program measure one of them.
const LAYOUTS: [&str; 3] = ["alone", "direct", "ring"];

fn main() -> ExitCode {
    lab::program::run(|out| {
        lab::startup::set_threads(NonZeroUsize::MIN)?;
        let rate = match std::env::args().find(|argument| LAYOUTS.contains(&argument.as_str())).as_deref() {
            None => return compare(out),
            Some("alone") => median(1, Algorithm::Ring)?,
            Some("direct") => median(2, Algorithm::Direct)?,
            Some(_) => median(2, Algorithm::Ring)?,
        };
        Ok(writeln!(out, "{rate}")?)
    })
}

/// All layouts in turn.
fn compare(out: &mut impl Write) -> Result<()> {
    let mut table = Table::new(["round", "two processes", "dp=2, direct", "dp=2, ring", "direct / two", "ring / two"]);
    for round in 1..=ROUNDS {
        let (two, direct, ring) = (measured("alone", 2)?, measured("direct", 1)?, measured("ring", 1)?);
        let rates = [two, direct, ring].map(|rate| numbers::rate(rate, "tokens"));
        let ratios = [direct / two, ring / two].map(|ratio| format!("{ratio:.3}"));
        table.push([round.to_string()].into_iter().chain(rates).chain(ratios));
    }
    Ok(writeln!(out, "{table}")?)
}

/// Tokens per second of all of `processes` processes that run `layout` at the same time.
fn measured(layout: &str, processes: usize) -> Result<f64> {
    let program = std::env::current_exe()?;
    let start = |_| Ok(Command::new(&program).arg(layout).stdout(Stdio::piped()).spawn()?);
    let children: Vec<Child> = (0..processes).map(start).collect::<Result<_>>()?;
    let outputs: Vec<_> = children.into_iter().map(Child::wait_with_output).collect();
    outputs.into_iter().try_fold(0.0, |total, output| {
        let output = output?;
        ensure!(output.status.success(), "{layout} failed");
        Ok(total + String::from_utf8(output.stdout)?.trim().parse::<f64>()?)
    })
}

/// Tokens per second of `ranks` ranks together, in the median step.
fn median(ranks: usize, algorithm: Algorithm) -> Result<f64> {
    let json = format!(
        r#"{{"model_type": "llama", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 8,
            "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": {VOCAB}, "tie_word_embeddings": false,
            "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "torch_dtype": "float32"}}"#
    );
    let config = Config::from_json(&json, None, "the bench's model")?;
    let plan = Plan {
        batch: ROWS * ranks,
        seq: SEQUENCE,
        micro_batches: 1,
        steps: WARM_UP + STEPS,
        rule: Rule::AdamW(AdamW { beta1: 0.9, beta2: 0.95, weight_decay: 0.1, ..AdamW::default() }),
        schedule: Schedule::constant(1e-3)?,
        clip: Some(1.0),
        seed: 1,
    };
    let tokens = 1 + ROWS * ranks * SEQUENCE * (WARM_UP + STEPS) as usize;
    let ids = (0..tokens as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 19).collect();
    let data = Arc::new(TokenData::new(ids, VOCAB)?);
    let options = Options { algorithm, ..Options::default() };
    let medians = launch(ranks, &options, |rank| {
        let model = Decoder::load(&config, &Random::new(1), DType::F32, &Device::Cpu, &Split::whole())?;
        let context = Context::inference().with_observer(rank.observer());
        let mut run = Run::new(plan.clone(), model, data.clone(), context)?;
        let group = rank.communicator().as_ref();
        let mut replica = Replica::begin(group, &run, Settings { check_every: 0, ..Settings::default() })?;
        let mut seconds = Vec::new();
        // The last step compares the replicas, which is no part of training.
        while run.steps_done() + 1 < plan.steps {
            group.barrier()?;
            let start = Instant::now();
            replica.step(&mut run)?;
            group.barrier()?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        let mut seconds = seconds.split_off(WARM_UP as usize);
        seconds.sort_by(f64::total_cmp);
        Ok::<_, anyhow::Error>(seconds[seconds.len() / 2])
    })?;
    let seconds = medians.first().context("rank 0 measures")?;
    Ok((ROWS * ranks * SEQUENCE) as f64 / seconds)
}
