//! Milliseconds of clipping and of one optimiser step on a 10.5 M parameter Llama's weights, one thread.
//!
//! `cargo bench --profile dev -p training`; the smallest of several repetitions, because other programs only ever make it slower.
#![allow(missing_docs)]

use candle_core::{DType, Device, Result, Tensor};
use std::sync::Arc;
use std::time::Instant;
use training::optimiser::{AdamW, Optimiser, Rule};
use training::{Named, clip};

const REPETITIONS: usize = 30;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let (parameters, gradients) = (weights(dtype)?, weights(dtype)?);
        let elements: usize = parameters.values().map(Tensor::elem_count).sum();
        let norm = fastest(|| clip::global_norm(&gradients, 0).map(drop))?;
        println!("{} {:.1} M: global norm {norm:.1} ms", dtype.as_str(), elements as f64 / 1e6);
        for (name, rule) in [("AdamW", Rule::AdamW(AdamW::default())), ("SGD", Rule::Sgd)] {
            let mut optimiser = Optimiser::new(rule)?;
            let step = fastest(|| optimiser.step(&parameters, &gradients, 1e-3, 0.5))?;
            println!("{} {:.1} M: {name} {step:.1} ms", dtype.as_str(), elements as f64 / 1e6);
        }
    }
    Ok(())
}

/// Milliseconds of the fastest repetition.
fn fastest(mut work: impl FnMut() -> training::Result<()>) -> training::Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        work()?;
        fastest = fastest.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(fastest)
}

/// 8 layers of hidden 256, ffn 768, and a vocabulary of 8192 with its head: 10.5 M elements.
fn weights(dtype: DType) -> Result<Named> {
    let mut weights = Named::new();
    let mut add = |name: String, shape: &[usize]| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i| ((i % 1009) as f32 - 504.0) * 1e-4).collect();
        weights.insert(Arc::from(name), Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?);
        Ok::<_, candle_core::Error>(())
    };
    add("embed".into(), &[8192, 256])?;
    add("head".into(), &[8192, 256])?;
    for layer in 0..8 {
        for (name, shape) in [
            ("q", [256, 256]),
            ("kv", [256, 256]),
            ("o", [256, 256]),
            ("gate", [768, 256]),
            ("up", [768, 256]),
            ("down", [256, 768]),
        ] {
            add(format!("layers.{layer}.{name}"), &shape)?;
        }
        add(format!("layers.{layer}.norm"), &[256])?;
    }
    Ok(weights)
}
