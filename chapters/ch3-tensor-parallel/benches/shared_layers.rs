//! Two ranks on two cores against one on one core, the same code: a training step and decoding of a synthetic model of about 100 M
//! parameters, by real time and by the CPU time of each rank's thread: what other programs take from the cores is in the first and not in
//! the second. `cargo bench --profile dev -p ch3-tensor-parallel`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device};
use ch3_tensor_parallel::core::Core;
use ch3_tensor_parallel::{Error, TensorParallel};
use collective::{Algorithm, ClockKind, Options, Rank, launch};
use decoder::generation::Options as Generation;
use decoder::weights::random::Random;
use decoder::{Config, Decoder, Tokens};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;
use training::gradients::Gradients;
use training::segments::forward_backward;

/// Sequences and tokens of a training step.
const STEP: (usize, usize) = (4, 256);
const DECODED: usize = 24;
/// Each measurement is the best of so many: the machine may have other work.
const REPEATS: usize = 2;

fn config() -> Config {
    let text = serde_json::json!({
        "model_type": "llama", "vocab_size": 16_384, "hidden_size": 768, "intermediate_size": 2_048,
        "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    });
    Config::from_json(&text.to_string(), None, "the bench's model").unwrap()
}

/// Seconds of the slowest rank by its clock, the best of several.
fn measured(
    tp: usize,
    clock: ClockKind,
    config: &Config,
    work: impl Fn(&TensorParallel, &Decoder) -> Result<(), Error> + Sync,
) -> f64 {
    // Threads that read each other's memory send nothing that a clock with links could time.
    let algorithm = if clock == ClockKind::Wall { Algorithm::Direct } else { Algorithm::Ring };
    let options = Options { algorithm, clock, ..Options::default() };
    let once = |rank: &Rank, tensor: &TensorParallel, model: &Decoder| {
        rank.communicator().barrier()?;
        let start = rank.clock().now();
        work(tensor, model)?;
        Ok::<_, Error>(rank.clock().now() - start)
    };
    let ranks = launch(tp, &options, |rank| {
        let tensor = TensorParallel::new(Core::default(), config, rank.communicator())?;
        let model = Decoder::load(config, &Random::new(1), DType::F32, &Device::Cpu, &tensor.split())?;
        (0..REPEATS).map(|_| once(rank, &tensor, &model)).collect::<Result<Vec<_>, _>>()
    })
    .unwrap();
    let slowest = |run: usize| ranks.iter().map(|runs| runs[run]).fold(0., f64::max);
    (0..REPEATS).map(slowest).fold(f64::INFINITY, f64::min)
}

fn training_step(tensor: &TensorParallel, model: &Decoder) -> Result<(), Error> {
    let (rows, seq) = STEP;
    let row = |row: usize| (0..seq).map(|token| (row * 31 + token * 7) as u32).collect();
    let ids: Vec<Vec<u32>> = (0..rows).map(row).collect();
    let views: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
    let tokens = Tokens::from_zero(&views, model.device())?;
    let sink = Arc::new(Gradients::expected(model, 1));
    let mut ctx = tensor.training(Arc::new(ledger::Ignore));
    ctx.sink = Some(sink.clone());
    forward_backward(model, &ctx, &tokens, &ids.concat(), 1. / (rows * seq) as f64)?;
    tensor.synchronise(&mut sink.finish()?)
}

/// A prompt of one token and what follows: as many passes as tokens.
fn decode(tensor: &TensorParallel, model: &Decoder) -> Result<(), Error> {
    let options = Generation { max_tokens: DECODED, stop_at_eos: false, ..Generation::default() };
    tensor.generate(model, Arc::new(ledger::Ignore), &[vec![1]], &options).map(drop)
}

/// Bytes per second that `threads` threads read together, each its own memory.
fn read_bandwidth(threads: usize) -> f64 {
    const NUMBERS: usize = 1 << 26;
    let memory: Vec<Vec<f32>> = (0..threads).map(|_| vec![1.; NUMBERS]).collect();
    let once = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for memory in &memory {
                scope.spawn(move || {
                    let mut sums = [0f32; 64];
                    for chunk in memory.chunks_exact(64) {
                        sums.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += number);
                    }
                    std::hint::black_box(sums)
                });
            }
        });
        (4 * threads * NUMBERS) as f64 / start.elapsed().as_secs_f64()
    };
    (0..5).map(|_| once()).fold(0., f64::max)
}

fn main() {
    lab::startup::set_threads(NonZeroUsize::MIN).unwrap();
    let config = config();
    println!("{} parameters, {} heads", lab::numbers::grouped(config.parameters()), config.heads);
    let (rows, seq) = STEP;
    let [single, both] = [1, 2].map(read_bandwidth);
    println!("reading: {:.1} and {:.1} GB/s: {:.2} x", single / 1e9, both / 1e9, both / single);
    for (name, clock) in [("real time", ClockKind::Wall), ("CPU time", ClockKind::Cpu)] {
        let [one, two] = [1, 2].map(|tp| measured(tp, clock, &config, training_step));
        println!("{name}: training step of {rows} x {seq} tokens: {one:.2} s and {two:.2} s: {:.2} x", one / two);
        let [one, two] = [1, 2].map(|tp| measured(tp, clock, &config, decode) / DECODED as f64);
        let (ratio, share) = (one / two, one / two / (both / single));
        println!(
            "{name}: decode: {:.1} and {:.1} ms per token: {ratio:.2} x, {share:.2} of reading's",
            1e3 * one,
            1e3 * two
        );
    }
}
