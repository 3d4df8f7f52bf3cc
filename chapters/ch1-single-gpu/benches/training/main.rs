//! Training steps of a 10.5 M parameter Llama on one thread: tokens per second, where the time goes, peak memory.
//!
//! `cargo bench --profile dev -p ch1-single-gpu --bench training`
//!
//! The model is that of PyTorch's usual comparison: hidden 256, 8 layers, 8 heads, ffn 688, vocabulary 8192, f32; AdamW (0.9, 0.95),
//! decay 0.1, clipping at 1; 4 × 256 tokens per step. On the machine of the lesson PyTorch 2.15 trains it at 1,250 tokens/s with
//! one thread, in 1.4 GB.
#![allow(missing_docs)]

#[path = "../measured/mod.rs"]
#[allow(dead_code)]
mod measured;

use anyhow::Result;
use candle_core::{DType, Device};
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder, Tokens};
use lab::{Table, numbers};
use ledger::{Bytes, CountingAllocator, Ledger};
use measured::{ByOperation, Stopwatch, Times, resident_bytes};
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use training::gradients::Gradients;
use training::optimiser::{AdamW, Optimiser, Rule};
use training::{Named, clip, segments};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const BATCH: usize = 4;
const SEQUENCE: usize = 256;
const WARM_UP: usize = 2;
const STEPS: usize = 10;

const CONFIG: &str = r#"{
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 8192, "tie_word_embeddings": false, "max_position_embeddings": 512,
    "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-6, "torch_dtype": "float32"
}"#;

fn main() -> ExitCode {
    lab::program::run(|out| {
        let threads = NonZeroUsize::MIN;
        lab::startup::set_threads(threads)?;
        let measured = lab::program::in_pool(threads, measure)??;
        measured.write(out)
    })
}

struct Measured {
    parameters: usize,
    losses: Vec<f64>,
    /// Processor seconds of each step, warm-up left out.
    steps: Vec<f64>,
    /// Of the fastest step.
    times: Times,
    peak: Option<u64>,
    resident: Option<u64>,
}

fn measure() -> Result<Measured> {
    let config = Config::from_json(CONFIG, None, "the bench's model")?;
    let model = Decoder::load(&config, &Random::new(1), DType::F32, &Device::Cpu, &Split::whole())?;
    let parameters: Named = model
        .parameters()
        .into_iter()
        .map(|(parameter, _)| (parameter.name().clone(), parameter.value().clone()))
        .collect();
    let settings = AdamW { beta1: 0.9, beta2: 0.95, weight_decay: 0.1, ..AdamW::default() };
    let mut optimiser = Optimiser::new(Rule::AdamW(settings))?;

    let ids: Vec<u32> = (0..BATCH * SEQUENCE).map(|i| (i as u32).wrapping_mul(2_654_435_761) >> 19).collect();
    let rows: Vec<&[u32]> = ids.chunks(SEQUENCE).collect();
    let tokens = Tokens::from_zero(&rows, &Device::Cpu)?;
    let targets: Vec<u32> =
        rows.iter().flat_map(|row| row[1..].iter().copied().chain([decoder::ops::IGNORED])).collect();

    let clock = Arc::new(ByOperation::new(1));
    let (mut losses, mut steps, mut times) = (Vec::new(), Vec::new(), Times::new());
    for step in 0..WARM_UP + STEPS {
        clock.take();
        let watch = Stopwatch::start();
        let sink = Arc::new(Gradients::expected(&model, 1));
        let ctx = Context::training(sink.clone()).with_observer(clock.clone());
        let count = BATCH * (SEQUENCE - 1);
        let (sum, _) = segments::forward_backward(&model, &ctx, &tokens, &targets, 1. / count as f64)?;
        let gradients = sink.finish()?;
        clock.charge("end of the backward", "");
        let norm = clip::global_norm(&gradients, step as u64)?;
        clock.charge("clipping", "");
        optimiser.step(&parameters, &gradients, 1e-3, clip::coefficient(norm, 1.0)?)?;
        clock.charge("optimiser", "");
        drop(gradients);
        let seconds = watch.seconds(1);
        losses.push(sum / count as f64);
        if step >= WARM_UP {
            if steps.iter().all(|&earlier| seconds < earlier) {
                times = clock.take();
            }
            steps.push(seconds);
        }
    }
    Ok(Measured {
        parameters: parameters.values().map(candle_core::Tensor::elem_count).sum(),
        losses,
        steps,
        times,
        peak: Ledger::of_this_thread().device_peak(),
        resident: resident_bytes(),
    })
}

impl Measured {
    fn write(mut self, out: &mut impl Write) -> Result<()> {
        let tokens = (BATCH * SEQUENCE) as f64;
        self.steps.sort_by(f64::total_cmp);
        let (best, median) = (self.steps[0], self.steps[self.steps.len() / 2]);
        writeln!(
            out,
            "training, one thread, {}: {} (median {}); loss {:.4} → {:.4}",
            numbers::count(self.parameters as f64),
            numbers::rate(tokens / best, "tokens"),
            numbers::rate(tokens / median, "tokens"),
            self.losses[0],
            self.losses[self.losses.len() - 1],
        )?;
        let shown = |bytes: Option<u64>| bytes.map_or("not measured".into(), |bytes| Bytes(bytes).to_string());
        writeln!(out, "peak of the device's memory {}, resident {}", shown(self.peak), shown(self.resident))?;
        let total: f64 = self.times.values().sum();
        let mut parts: Vec<_> = self.times.iter().collect();
        parts.sort_by(|a, b| b.1.total_cmp(a.1));
        let mut table = Table::new(["operation", "direction", "ms", "share"]);
        for ((name, phase), seconds) in parts {
            table.push([
                (*name).to_owned(),
                (*phase).to_owned(),
                format!("{:.1}", seconds * 1e3),
                numbers::percent(seconds / total),
            ]);
        }
        table.push(["all".into(), String::new(), format!("{:.1}", total * 1e3), numbers::percent(1.)]);
        writeln!(out, "{table}")?;
        Ok(())
    }
}
