//! Sizes and costs: what the formulas of this chapter predict is what the allocator and the observer count.
//!
//! Every property is checked on models drawn from a seed; the seed stands in each message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device};
use ch1_single_gpu::kv::{allocated, cache_bytes, crossing, decode_steps};
use ch1_single_gpu::memory::{Plan, Work};
use ch1_single_gpu::wall::{Attempt, Subject, attempt, predicted, smallest};
use decoder::shape::{Hardware, ModelShape, published_models};
use decoder::source::Source;
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Decoder};
use lab::flags::{DeviceFlags, ModelFlags, RandomFlags};
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
                assert_eq!(cache_bytes(&config, context, batch, dtype).unwrap(), predicted);
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

/// A shape whose tensors are large beside their descriptors, to be run with random weights.
fn subject(seed: u64) -> Subject {
    let mut draw = Draw(seed);
    let kv_heads = draw.of(&[1, 2, 4]);
    let json = serde_json::json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": draw.of(&[128, 192, 256]), "intermediate_size": draw.of(&[256, 500, 700]),
        "num_hidden_layers": draw.of(&[3, 4, 6]), "num_attention_heads": 8, "num_key_value_heads": kv_heads,
        "head_dim": draw.of(&[16, 32]), "vocab_size": draw.of(&[500, 2000]), "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": draw.of(&[0, 1]) == 1,
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), json.to_string()).unwrap();
    let source = Source::resolve(folder.path().to_str().unwrap(), None, folder.path()).unwrap();
    let config = source.config().unwrap();
    let described = Described { source, config, device: Device::Cpu, dtype: DType::F32 };
    Subject { described, random: RandomFlags { random: Some(seed) } }
}

/// The bundled model with its own weights.
fn bundled() -> Subject {
    let cpu = DeviceFlags { cpu: true, ..DeviceFlags::default() };
    let described = Described::from_flags(&ModelFlags::default(), &cpu).unwrap();
    Subject { described, random: RandomFlags::default() }
}

/// Two runs may differ by this much: candle's backward keeps gradients in a hash map, whose order is drawn anew each time.
fn jitter(bytes: u64) -> u64 {
    bytes / 1000
}

const WORKS: [Work; 2] =
    [Work::Inference { batch: 5, prompt: 60, context: 200 }, Work::Training { batch: 3, seq: 100 }];

#[test]
fn every_kind_of_a_run_is_predicted_within_two_percent_weights_and_cache_exactly() {
    for seed in 30..33 {
        let subject = subject(seed);
        for work in WORKS {
            let held = attempt(&subject, work, None).unwrap().held().unwrap();
            let predicted = work.predicted(&subject.described.config, DType::F32).unwrap();
            assert!(predicted.kinds.len() >= 3);
            let comparison = predicted.compare(Some(&held));
            assert!(comparison.all_hold() && comparison.all_measured(), "seed {seed}, {work:?}\n{comparison}");
            assert_eq!(held.of(Kind::Weights).current, 0, "seed {seed}, {work:?}: all is freed");
        }
    }
}

#[test]
fn the_smallest_device_that_works_is_the_predicted_one_within_two_percent() {
    for (name, subject) in [("bundled", bundled()), ("seed 40", subject(40))] {
        for work in WORKS {
            let predicted = predicted(&subject, work).unwrap().device;
            let step = predicted / 500;
            let fits = |limit| Ok(matches!(attempt(&subject, work, Some(limit))?, Attempt::Fits(_)));
            let found = smallest::<lab::Error>(predicted, step, fits).unwrap();
            let at = format!("{name}, {work:?}: predicted {predicted}, found {found:?}");
            assert!(found.bytes.abs_diff(predicted) as f64 <= 0.02 * predicted as f64, "{at}");
            // The limit does not change what is held: the wall is the peak of a run without one.
            let held = attempt(&subject, work, None).unwrap().held().unwrap().device().peak;
            assert!((held - jitter(held)..=held + jitter(held) + step).contains(&found.bytes), "{at}, held {held}");
        }
    }
}

#[test]
fn a_device_that_is_too_small_ends_the_run_with_the_limit_what_was_held_and_the_ledger() {
    let subject = subject(50);
    for work in WORKS {
        let peak = attempt(&subject, work, None).unwrap().held().unwrap().device().peak;
        // While weights are read, while the cache or the graph grows, and just at the end.
        for limit in [1, peak / 10, peak / 2, peak - jitter(peak)] {
            let error = attempt(&subject, work, Some(limit)).unwrap().held().unwrap_err();
            let ledger::Error::OutOfMemory { limit: named, held, ref snapshot, .. } = error else {
                panic!("{work:?}, {limit}: {error}")
            };
            assert!(named == limit && held > limit && held <= peak + jitter(peak), "{work:?}, {limit}: {error}");
            assert!(snapshot.of(Kind::Weights).peak > 0);
            let text = error.to_string();
            for part in [work.name(), &limit.to_string(), &held.to_string(), "weights", "device", "--device-memory"] {
                assert!(text.contains(part), "{part} is not in {text}");
            }
        }
    }
}

#[test]
fn a_bisection_ends_at_most_a_step_above_any_wall_and_tries_nothing_twice() {
    let mut draw = Draw(60);
    for _ in 0..200 {
        let (wall, start, step) =
            (draw.of(&[1, 2, 999, 123_456]), draw.of(&[1, 1000, 130_000]), draw.of(&[1, 7, 1000]));
        let (wall, start, step) = (wall as u64, start as u64, step as u64);
        let found = smallest(start, step, |bytes| Ok::<_, ()>(bytes >= wall)).unwrap();
        assert!((wall..wall + step).contains(&found.bytes), "wall {wall}, start {start}, step {step}: {found:?}");
        let mut sizes: Vec<u64> = found.tried.iter().map(|(bytes, _)| *bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!(sizes.len(), found.tried.len(), "{found:?}");
    }
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
