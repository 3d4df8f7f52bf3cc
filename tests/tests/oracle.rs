//! The decoder against an independent implementation (PyTorch, transformers; a float64 one): logits, loss, every gradient,
//! training trajectories and greedy text of the nine dense checkpoints in `fixtures/tiny`.
//!
//! `DECODER_TEST_DEVICE=cuda` runs the f32 part on a GPU.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device, Tensor};
use decoder::ops::GradientSink;
use decoder::source::Source;
use decoder::split::Split;
use decoder::{Context, Decoder, Tokens};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use training::gradients::Gradients;
use training::optimiser::{AdamW, Decay, Optimiser, Rule};
use training::{Named, clip, segments};

const NAMES: [&str; 9] = [
    "llama-bf16",
    "llama-gqa",
    "llama-headdim",
    "llama-mqa-bias",
    "llama-rope-llama3",
    "llama-sharded",
    "llama-tied-odd",
    "qwen2-tied",
    "qwen3",
];

/// How far two implementations may differ, by type.
struct Tolerance {
    logits: f64,
    loss: f64,
    gradients: f64,
    adamw_losses: f64,
    adamw_norms: f64,
}

const F32: Tolerance = Tolerance { logits: 5e-5, loss: 1e-5, gradients: 2e-5, adamw_losses: 5e-5, adamw_norms: 1e-4 };
const F64: Tolerance =
    Tolerance { logits: f64::NAN, loss: 1e-9, gradients: f64::NAN, adamw_losses: 1e-9, adamw_norms: 1e-9 };

struct Case {
    model: Decoder,
    ids: Vec<Vec<u32>>,
    oracle: Value,
    full: HashMap<String, Tensor>,
    device: Device,
}

fn fixtures() -> PathBuf {
    // At run time, so that a program built elsewhere finds them.
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(manifest).join("fixtures")
}

fn device() -> Device {
    match std::env::var("DECODER_TEST_DEVICE").as_deref() {
        Ok("cuda") => Device::new_cuda(0).expect("a CUDA device"),
        _ => Device::Cpu,
    }
}

fn open(name: &'static str, dtype: DType, device: &Device) -> Case {
    let folder = fixtures().join("tiny").join(name);
    let source = Source::resolve(folder.to_str().unwrap(), None, &folder).unwrap();
    let config = source.config().unwrap();
    let weights = source.weights().unwrap();
    let model = Decoder::load(&config, &*weights, dtype, device, &Split::whole()).unwrap();
    let oracle: Value = serde_json::from_slice(&std::fs::read(folder.join("oracle.json")).unwrap()).unwrap();
    let ids = serde_json::from_value(oracle["input_ids"].clone()).unwrap();
    let full = candle_core::safetensors::load(folder.join("oracle/full.safetensors"), &Device::Cpu).unwrap();
    Case { model, ids, oracle, full, device: device.clone() }
}

impl Case {
    fn tokens(&self, length: usize) -> Tokens {
        let rows: Vec<&[u32]> = self.ids.iter().map(|row| &row[..length]).collect();
        Tokens::from_zero(&rows, &self.device).unwrap()
    }

    /// The mean next-token loss over 2 × 15 targets, and all gradients.
    fn loss_and_gradients(&self) -> (f64, Named) {
        let tokens = self.tokens(self.ids[0].len() - 1);
        let targets: Vec<u32> = self.ids.iter().flat_map(|row| row[1..].iter().copied()).collect();
        let sink = Arc::new(Gradients::expected(&self.model, 1));
        let ctx = Context::training(sink.clone());
        let scale = 1. / targets.len() as f64;
        let (sum, count) = segments::forward_backward(&self.model, &ctx, &tokens, &targets, scale).unwrap();
        assert_eq!(count, targets.len());
        (sum * scale, sink.finish().unwrap())
    }
}

fn wide(t: &Tensor) -> Tensor {
    t.to_device(&Device::Cpu).unwrap().to_dtype(DType::F64).unwrap()
}

fn norm(t: &Tensor) -> f64 {
    wide(t).sqr().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap().sqrt()
}

fn difference(a: &Tensor, b: &Tensor) -> Tensor {
    (wide(a) - wide(b)).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn logits_loss_and_every_gradient_are_those_of_pytorch_in_f32() {
    for name in NAMES {
        let case = open(name, DType::F32, &device());
        let logits = case.model.logits(&Context::inference(), &case.tokens(16), None).unwrap();
        let worst =
            difference(&logits, &case.full["logits"]).abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
        assert!(worst <= F32.logits, "{name}: a logit differs by {worst:e}");

        let (loss, gradients) = case.loss_and_gradients();
        let expected = number(&case.oracle["loss"]);
        assert!((loss - expected).abs() <= F32.loss * expected, "{name}: loss {loss}, expected {expected}");
        let theirs: Vec<&String> = case.full.keys().filter(|key| key.starts_with("grad.")).collect();
        assert_eq!(gradients.len(), theirs.len(), "{name}: the same parameters have gradients");
        let mut worst = 0f64;
        for (parameter, gradient) in &gradients {
            let expected = &case.full[&format!("grad.{parameter}")];
            assert_eq!(gradient.dims(), expected.dims());
            let relative = norm(&difference(gradient, expected)) / norm(expected);
            worst = worst.max(relative);
            assert!(relative <= F32.gradients, "{name}: gradient of {parameter} differs by {relative:e} of its norm");
        }
        println!("{name}: loss {loss:.7}, {} gradients, worst relative difference {worst:.1e}", gradients.len());
    }
}

#[test]
fn loss_and_gradient_norm_are_those_of_the_float64_implementation() {
    for name in NAMES {
        let case = open(name, DType::F64, &Device::Cpu);
        let (loss, gradients) = case.loss_and_gradients();
        let block = &case.oracle["f64"];
        assert!((loss - number(&block["loss"])).abs() <= F64.loss, "{name}: loss {loss}, expected {}", block["loss"]);
        let norm = clip::global_norm(&gradients, 0).unwrap();
        let expected = number(&block["grad_global_norm"]);
        assert!((norm - expected).abs() <= 1e-9 * expected, "{name}: norm {norm}, expected {expected}");
    }
}

/// Losses before each of ten AdamW steps and after them, and gradient norms before clipping.
fn trajectory(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let rule = Rule::AdamW(AdamW { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, decay: Decay::All });
    let mut optimiser = Optimiser::new(rule).unwrap();
    let parameters: Named =
        case.model.parameters().into_iter().map(|(p, _)| (p.name().clone(), p.value().clone())).collect();
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for step in 0..11 {
        let (loss, gradients) = case.loss_and_gradients();
        losses.push(loss);
        if step < 10 {
            let norm = clip::global_norm(&gradients, step).unwrap();
            norms.push(norm);
            optimiser.step(&parameters, &gradients, 1e-3, clip::coefficient(norm, 1.).unwrap()).unwrap();
        }
    }
    (losses, norms)
}

#[test]
fn ten_adamw_steps_follow_the_same_trajectory_in_f32_and_f64() {
    for name in NAMES {
        // A GPU takes the f32 part through the composed operations.
        for (dtype, tolerance) in [(DType::F32, F32), (DType::F64, F64)] {
            let device = if dtype == DType::F32 { device() } else { Device::Cpu };
            let case = open(name, dtype, &device);
            let (losses, norms) = trajectory(&case);
            let (their_losses, their_norms) = match dtype {
                DType::F32 => (numbers(&case.oracle["adamw"]["losses"]), numbers(&case.oracle["adamw"]["grad_norms"])),
                _ => (numbers(&case.oracle["f64"]["adamw_losses"]), numbers(&case.oracle["f64"]["adamw_grad_norms"])),
            };
            assert_eq!((losses.len(), norms.len()), (their_losses.len(), their_norms.len()));
            for (step, (ours, theirs)) in losses.iter().zip(&their_losses).enumerate() {
                let difference = (ours - theirs).abs();
                assert!(
                    difference <= tolerance.adamw_losses,
                    "{name} {dtype:?}: loss {step} differs by {difference:e}"
                );
            }
            for (step, (ours, theirs)) in norms.iter().zip(&their_norms).enumerate() {
                let difference = (ours - theirs).abs() / theirs;
                assert!(difference <= tolerance.adamw_norms, "{name} {dtype:?}: norm {step} differs by {difference:e}");
            }
        }
    }
}

/// The whole graph at once, without segments: candle's own `backward()` of the loss.
#[test]
fn the_segmented_backward_is_the_unsegmented_one() {
    for name in NAMES {
        let case = open(name, DType::F64, &Device::Cpu);
        let (_, segmented) = case.loss_and_gradients();
        let sink = Arc::new(Gradients::expected(&case.model, 1));
        let ctx = Context::training(sink.clone() as Arc<dyn GradientSink>);
        let targets: Vec<u32> = case.ids.iter().flat_map(|row| row[1..].iter().copied()).collect();
        let loss = case.model.loss(&ctx, &case.tokens(15), &targets).unwrap();
        (loss.sum / targets.len() as f64).unwrap().backward().unwrap();
        let whole = sink.finish().unwrap();
        assert_eq!(whole.len(), segmented.len());
        for (parameter, gradient) in &whole {
            let relative = norm(&difference(gradient, &segmented[parameter])) / norm(gradient);
            assert!(relative <= 1e-12, "{name}: {parameter} differs by {relative:e}");
        }
    }
}

#[test]
fn greedy_text_through_the_cache_is_theirs() {
    for name in NAMES {
        let case = open(name, DType::F32, &device());
        let greedy = &case.oracle["greedy"];
        let prompt: Vec<u32> = serde_json::from_value(greedy["prompt"].clone()).unwrap();
        let expected: Vec<u32> = serde_json::from_value(greedy["generated"].clone()).unwrap();
        let ctx = Context::inference();
        let mut cache = case.model.cache(1, prompt.len() + expected.len()).unwrap();
        let (mut ids, mut fed) = (prompt, 0);
        let first = ids.len();
        while ids.len() - first < expected.len() {
            let tokens = Tokens::new(&[&ids[fed..]], vec![fed], &case.device).unwrap();
            fed = ids.len();
            let logits = case.model.next_token_logits(&ctx, &tokens, Some(&mut cache)).unwrap();
            ids.push(logits.get(0).unwrap().argmax(0).unwrap().to_scalar::<u32>().unwrap());
        }
        assert_eq!(ids[first..], expected, "{name}");
    }
}
