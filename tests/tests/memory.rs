//! What the decoder holds is what its formula says, by kind, in inference and in a training step.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device};
use decoder::model::Footprint;
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder, Tokens};
use ledger::{CountingAllocator, Kind, Ledger};
use std::sync::{Arc, Mutex};
use training::footprint::training_peak;
use training::gradients::Gradients;
use training::optimiser::{AdamW, Optimiser, Rule};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Measuring is for one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Shapes in which another part is the largest: the feed-forward network, the head, attention, with and without biases.
fn configs() -> Vec<(&'static str, Config)> {
    let parse = |name, text: String| (name, Config::from_json(&text, None, name).unwrap());
    let llama = |ffn: usize, vocab: usize, head_dim: usize, tied: bool| {
        format!(
            r#"{{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 192, "intermediate_size": {ffn},
            "num_hidden_layers": 5, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": {head_dim},
            "vocab_size": {vocab}, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "tie_word_embeddings": {tied}}}"#
        )
    };
    let qwen = r#"{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 192, "intermediate_size": 512,
        "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 500,
        "max_position_embeddings": 1024, "rms_norm_eps": 1e-6}"#;
    vec![
        parse("wide feed-forward", llama(768, 300, 32, false)),
        parse("large vocabulary", llama(256, 4000, 32, true)),
        parse("wide attention", llama(128, 300, 64, false)),
        parse("biases", qwen.into()),
    ]
}

fn tokens(rows: usize, seq: usize) -> Tokens {
    let ids: Vec<Vec<u32>> = (0..rows).map(|row| (0..seq).map(|i| ((7 * i + row) % 300) as u32).collect()).collect();
    Tokens::from_zero(&ids.iter().map(Vec::as_slice).collect::<Vec<_>>(), &Device::Cpu).unwrap()
}

fn within(what: &str, predicted: u64, measured: u64) {
    let difference = (measured as f64 - predicted as f64) / predicted as f64;
    println!("{what}: predicted {predicted}, measured {measured}, {:+.2} %", 100. * difference);
    if std::env::var("LOOK").is_err() {
        assert!(
            difference.abs() <= 0.02,
            "{what}: predicted {predicted}, measured {measured}: {:+.2} %",
            100. * difference
        );
    }
}

#[test]
fn a_training_step_holds_what_the_formula_says_by_kind() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (name, config) in configs() {
        for dtype in [DType::F32, DType::F64] {
            let ledger = Ledger::claim(name).unwrap();
            let _rank = ledger.enter();
            let (rows, seq) = (4, 256);
            let model = Decoder::load(&config, &Random::new(1), dtype, &Device::Cpu, &Split::whole()).unwrap();
            let parameters =
                model.parameters().into_iter().map(|(p, _)| (p.name().clone(), p.value().clone())).collect();
            let mut optimiser = Optimiser::new(Rule::AdamW(AdamW::default())).unwrap();
            let batch = tokens(rows, seq);
            let targets: Vec<u32> = (0..rows * seq).map(|i| (i % 300) as u32).collect();
            let mut step = || {
                let sink = Arc::new(Gradients::expected(&model, 1));
                let ctx = Context::training(sink.clone());
                training::segments::forward_backward(&model, &ctx, &batch, &targets, 1e-3).unwrap();
                optimiser.step(&parameters, &sink.finish().unwrap(), 1e-3, 1.).unwrap();
            };
            // The first step makes the optimiser's state.
            step();
            ledger.reset_peaks();
            step();
            let predicted = training_peak(&config, rows, seq, dtype, 2 * dtype.size_in_bytes() as u64);
            let what = |kind: &str| format!("{name}, {dtype:?}, {kind}");
            within(&what("weights"), predicted.weights, ledger.peak(Kind::Weights).unwrap());
            within(&what("optimiser"), predicted.optimiser, ledger.peak(Kind::Optimiser).unwrap());
            within(&what("gradients"), predicted.gradients, ledger.peak(Kind::Gradients).unwrap());
            within(&what("activations"), predicted.activations, ledger.peak(Kind::Activations).unwrap());
            // The scratch of the matrix library depends on the processor's caches; it is there at the peak too.
            let [resident, scratch] =
                [ledger.current(Kind::Workspace), ledger.peak(Kind::Workspace)].map(Option::unwrap);
            within(&what("device"), predicted.with_scratch(resident, scratch), ledger.device_peak().unwrap());
        }
    }
}

#[test]
fn generating_holds_what_the_formula_says_by_kind() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (name, config) in configs() {
        let ledger = Ledger::claim(name).unwrap();
        let _rank = ledger.enter();
        let (rows, seq, capacity) = (4, 256, 512);
        let model = Decoder::load(&config, &Random::new(1), DType::F32, &Device::Cpu, &Split::whole()).unwrap();
        let mut cache = model.cache(rows, capacity).unwrap();
        model.next_token_logits(&Context::inference(), &tokens(rows, seq), Some(&mut cache)).unwrap();
        let footprint = Footprint::new(&config, rows, seq, DType::F32, &Device::Cpu);
        within(&format!("{name}, weights"), footprint.weights(), ledger.peak(Kind::Weights).unwrap());
        within(&format!("{name}, KV cache"), footprint.kv_cache(rows, capacity), ledger.peak(Kind::KvCache).unwrap());
        let activations = footprint.inference_activations(rows as u64);
        within(&format!("{name}, activations"), activations, ledger.peak(Kind::Activations).unwrap());
    }
}
