//! Sizes and costs: what the formulas of this chapter predict is what the allocator and the observer count.
//!
//! Every property is checked on models drawn from a seed; the seed stands in each message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device};
use ch1_single_gpu::kv::{allocated, cache_bytes, crossing, decode_steps};
use ch1_single_gpu::memory::{Plan, measure_inference};
use decoder::shape::{Hardware, ModelShape, published_models};
use decoder::source::Source;
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Decoder};
use lab::flags::RandomFlags;
use lab::loaded::Described;
use ledger::{Kind, Ledger};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    /// One of `values`.
    fn of(&mut self, values: &[usize]) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        values[(bits ^ (bits >> 31)) as usize % values.len()]
    }
}

/// A small Llama or Qwen3 with grouped heads and a head width that is not hidden / heads.
fn config(seed: u64) -> Config {
    let mut draw = Draw(seed);
    let kv_heads = draw.of(&[1, 2, 3]);
    let heads = kv_heads * draw.of(&[1, 2, 4]);
    let (family, architecture) = [("llama", "LlamaForCausalLM"), ("qwen3", "Qwen3ForCausalLM")][draw.of(&[0, 1])];
    let json = serde_json::json!({
        "architectures": [architecture], "model_type": family, "hidden_act": "silu",
        "hidden_size": draw.of(&[24, 40, 96]), "intermediate_size": draw.of(&[50, 112]),
        "num_hidden_layers": draw.of(&[1, 2, 5]), "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": draw.of(&[8, 16, 32]), "vocab_size": draw.of(&[101, 256]), "max_position_embeddings": 300,
        "rms_norm_eps": 1e-5, "rope_theta": 1e4, "tie_word_embeddings": draw.of(&[0, 1]) == 1,
    });
    Config::from_json(&json.to_string(), None, "a drawn config").unwrap()
}

fn decoder(config: &Config, dtype: DType) -> Decoder {
    Decoder::load(config, &Random::new(7), dtype, &Device::Cpu, &Split::whole()).unwrap()
}

#[test]
fn the_cache_holds_exactly_the_predicted_bytes() {
    let ledger = Ledger::claim("cache").unwrap();
    let _entered = ledger.enter();
    for seed in 0..8 {
        let config = config(seed);
        let shape = ModelShape::from_config(&config).unwrap();
        for dtype in [DType::F32, DType::F64] {
            let model = decoder(&config, dtype);
            for (context, batch) in [(1, 1), (17, 3), (300, 2)] {
                let predicted = shape.kv_bytes(context as u64, batch as u64, dtype).unwrap();
                assert_eq!(cache_bytes(&shape, context as u64, batch as u64, dtype).unwrap(), predicted);
                let measured = allocated(&model, context, batch).unwrap();
                assert_eq!(measured, Some(predicted), "seed {seed}, {dtype:?}, {batch} x {context} tokens");
            }
        }
    }
}

#[test]
fn a_decode_step_computes_exactly_the_predicted_flops_with_and_without_the_cache() {
    for seed in 10..16 {
        let config = config(seed);
        let contexts = [1, 2, 9, 64, 300];
        for steps in decode_steps(&decoder(&config, DType::F32), &contexts, Duration::ZERO).unwrap() {
            let at = format!("seed {seed}, context {}", steps.context);
            for (step, cache) in [(steps.cached, "with"), (steps.uncached, "without")] {
                assert_eq!(step.counted.linear, step.predicted.linear, "{at}, {cache} the cache: linear");
                assert_eq!(step.counted.attention, step.predicted.attention, "{at}, {cache} the cache: attention");
            }
        }
    }
}

#[test]
fn attention_of_a_step_is_linear_in_the_context_with_the_cache_and_quadratic_without() {
    for seed in 20..24 {
        let steps = decode_steps(&decoder(&config(seed), DType::F32), &[64, 128, 256], Duration::ZERO).unwrap();
        let [a, b, c] = steps.as_slice() else { panic!("three contexts") };
        let cached = [a, b, c].map(|steps| steps.cached.counted.attention);
        assert_eq!([cached[1], cached[2]], [2 * cached[0], 4 * cached[0]], "seed {seed}");
        assert_eq!(a.cached.counted.linear, c.cached.counted.linear, "seed {seed}: the rest does not grow");
        // n·(n + 1)/2 pairs.
        let uncached = [a, c].map(|steps| steps.uncached.counted.attention);
        assert_eq!(uncached[1] * (64 * 65), uncached[0] * (256 * 257), "seed {seed}");
    }
}

#[test]
fn weights_and_cache_of_a_run_are_predicted_exactly_and_activations_nearly() {
    let json = serde_json::json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 256,
        "intermediate_size": 700, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
        "vocab_size": 500, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), json.to_string()).unwrap();
    let source = Source::resolve(folder.path().to_str().unwrap(), None, folder.path()).unwrap();
    let config = source.config().unwrap();
    let described = Described { source, config, device: Device::Cpu, dtype: DType::F32 };
    let (context, batch) = (512, 8);
    let plan = Plan { context, batch, dtype: DType::F32, training: false };
    let predicted = plan.predicted(&described.config).unwrap();

    let ledger = Ledger::claim("memory").unwrap();
    let _entered = ledger.enter();
    let random = RandomFlags { random: Some(3) };
    let snapshot = measure_inference(&described, random, context as usize, batch as usize).unwrap().unwrap();
    for (kind, predicted) in predicted {
        let measured = snapshot.of(kind).peak;
        if kind == Kind::Activations {
            // candle's matrix product packs blocks of its operands, as many bytes as a cache has.
            let packing = 4 << 20;
            assert!(measured >= predicted, "activations: {measured} measured, {predicted} predicted");
            assert!(measured <= predicted + predicted / 50 + packing, "activations: {measured}, {predicted} predicted");
        } else {
            assert_eq!(measured, predicted, "{kind}");
        }
    }
    assert_eq!(ledger.current(Kind::Weights), Some(0), "all is freed");
}

#[test]
fn a_longer_context_a_larger_batch_and_training_never_need_fewer_devices() {
    let gpu = Hardware::named("H100").unwrap();
    for model in published_models().unwrap() {
        for training in [false, true] {
            let devices = |context, batch| {
                let plan = Plan { context, batch, dtype: DType::BF16, training };
                plan.footprint(&model.shape).unwrap().devices_needed(&gpu).unwrap()
            };
            let sizes = [(1, 1), (4096, 1), (4096, 8), (65536, 8), (65536, 64)];
            let needed = sizes.map(|(context, batch)| devices(context, batch));
            assert!(needed.is_sorted() && needed[0] >= 1, "{}: {needed:?}", model.name);
        }
    }
}

#[test]
fn the_crossing_is_the_first_context_with_as_many_bytes_of_cache_as_of_weights() {
    for model in published_models().unwrap() {
        let weights = model.shape.decode_weight_bytes(DType::F16).unwrap();
        let kv = |context| model.shape.kv_bytes(context, 1, DType::F16).unwrap();
        match crossing(&model.shape, DType::F16, DType::F16).unwrap() {
            Some(context) => {
                assert!(kv(context) >= weights, "{} at {context}", model.name);
                assert!(context == 1 || kv(context - 1) < weights, "{} at {context}", model.name);
            }
            // Every layer has a window.
            None => assert_eq!(kv(1 << 30), kv(1 << 31), "{}", model.name),
        }
    }
}
