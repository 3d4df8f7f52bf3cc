//! Predictions of `decoder::shape` against published figures, against each other, and against bad input.
//!
//! `assets/published.json` holds what papers and model cards print. `predict/published.rs` checks each of its entries; one
//! that no arm knows fails the test, so that none is forgotten.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "predict/published.rs"]
mod figures;

use candle_core::DType;
use decoder::shape::hardware::{self, Precision};
use decoder::shape::{
    Activations, Attention, Footprint, Hardware, Logits, ModelShape, Pairs, Recompute, Size, StateBytes, Training,
    padded_vocab, published, published_models, six_n_flops,
};

fn shape(name: &str) -> ModelShape {
    published(name).unwrap_or_else(|error| panic!("{error}")).shape
}

/// Draws numbers (xorshift64*), so that properties are tested on inputs nobody chose.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Self(clock.as_nanos() as u64 | 1)
    }

    /// From 1 to `most`.
    fn up_to(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % most + 1
    }
}

/// The sum over all queries, one by one: what the closed form must give.
fn pairs_one_by_one(tokens: u64, window: Option<u64>) -> u128 {
    (1..=tokens).map(|seen| u128::from(window.map_or(seen, |window| seen.min(window)))).sum()
}

#[test]
fn the_shape_of_a_published_model_has_exactly_the_published_parameters() {
    let models = published_models().unwrap();
    assert!(models.len() > 40, "{}", models.len());
    for model in models {
        if let Some(parameters) = model.parameters {
            assert_eq!(model.shape.parameters().unwrap().total(), parameters, "{}", model.name);
        }
        assert!(!model.source.is_empty(), "{}", model.name);
    }
    let mut padded = shape("gpt2");
    padded.vocab = Size::new(padded_vocab(50257, 128).unwrap()).unwrap();
    assert_eq!(padded.parameters().unwrap().total(), 124_475_904, "GPT-2 with its vocabulary padded to 50304 rows");
}

#[test]
fn parts_sum_to_the_total_and_layers_sum_to_the_model() {
    for model in published_models().unwrap() {
        let shape = model.shape;
        for parameters in [shape.parameters().unwrap(), shape.active_parameters().unwrap()] {
            let ends = parameters.embedding + parameters.positions + parameters.head;
            assert_eq!(parameters.total(), parameters.non_embedding() + ends, "{}", model.name);
        }
        let layers: u64 = (0..shape.layer_count().unwrap()).map(|index| shape.layer_parameters(index).unwrap()).sum();
        let parameters = shape.parameters().unwrap();
        let final_norm = parameters.norms / (2 * shape.layer_count().unwrap() + 1);
        assert_eq!(layers + final_norm, parameters.non_embedding(), "{}", model.name);
    }
}

#[test]
fn the_operations_of_all_layers_and_the_head_sum_to_the_forward_pass() {
    let mut random = Random::seeded();
    for model in published_models().unwrap() {
        let (seed, shape) = (random.0, model.shape);
        let (batch, tokens) = (random.up_to(5), random.up_to(9000));
        let sum = |new: u64, past: u64| -> u128 {
            let layers = 0..shape.layer_count().unwrap();
            let operations =
                layers.flat_map(|index| shape.layer_operations(index, batch, new, past, DType::F32).unwrap());
            operations.map(|operation| u128::from(operation.flops)).sum()
        };
        let name = format!("{}, batch {batch}, {tokens} tokens, seed {seed}", model.name);

        let prefill = shape.prefill_flops(batch, tokens, Pairs::Causal, Logits::All).unwrap();
        let head = shape.head_operation(batch * tokens, DType::F32).unwrap();
        assert_eq!(sum(tokens, 0) + u128::from(head.flops), prefill.total(), "{name}");

        let step = shape.decode_step_flops(batch, tokens + 1).unwrap();
        let head = shape.head_operation(batch, DType::F32).unwrap();
        assert_eq!(sum(1, tokens) + u128::from(head.flops), step.total(), "{name}");
    }
}

#[test]
fn an_operation_reads_its_operands_and_writes_its_result_once() {
    let shape = shape("SmolLM2 135M");
    let operations = shape.layer_operations(0, 2, 3, 5, DType::F32).unwrap();
    let parts: Vec<_> = operations.iter().map(|operation| operation.part).collect();
    assert_eq!(parts, ["q_proj", "k_proj", "v_proj", "attention", "o_proj", "gate_proj", "up_proj", "down_proj"]);
    let by_part = |part| operations.iter().find(|operation| operation.part == part).unwrap();
    assert_eq!(by_part("k_proj").bytes, 4 * (6 * 576 + 576 * 192 + 6 * 192));
    assert_eq!((by_part("up_proj").rows, by_part("up_proj").columns), (6, 1536));
    // Queries of 6 tokens, keys and values of 16, results of 6; 6 + 7 + 8 pairs in each of two sequences.
    assert_eq!(by_part("attention").bytes, 4 * (6 * 576 + 2 * 16 * 192 + 6 * 576));
    assert_eq!(by_part("attention").flops, 4 * 576 * 2 * (6 + 7 + 8));
}

#[test]
fn reading_token_by_token_with_a_cache_costs_what_reading_at_once_does() {
    let mut random = Random::seeded();
    for name in ["SmolLM2 135M", "Mixtral 8x7B", "gpt2"] {
        let (seed, mut shape, tokens) = (random.0, shape(name), random.up_to(200));
        for window in [None, Size::new(random.up_to(100))] {
            shape.layers.iter_mut().for_each(|run| run.window = window);
            let steps: u128 = (1..=tokens).map(|n| shape.decode_step_flops(3, n).unwrap().total()).sum();
            let once = shape.prefill_flops(3, tokens, Pairs::Causal, Logits::All).unwrap();
            assert_eq!(steps, once.total(), "{name}, {tokens} tokens, window {window:?}, seed {seed}");
        }
    }
}

#[test]
fn attention_counts_the_pairs_that_the_mask_lets_through() {
    let mut random = Random::seeded();
    let mut shape = shape("Llama 2 7B");
    for _ in 0..50 {
        let (seed, tokens, window) = (random.0, random.up_to(300), Size::new(random.up_to(300)));
        for window in [None, window] {
            shape.layers.iter_mut().for_each(|run| run.window = window);
            let flops = shape.prefill_flops(1, tokens, Pairs::Causal, Logits::Last).unwrap();
            let pairs = pairs_one_by_one(tokens, window.map(Size::get));
            assert_eq!(flops.attention, 32 * 4 * 4096 * pairs, "{tokens} tokens, window {window:?}, seed {seed}");
        }
    }
}

#[test]
fn a_decode_step_is_linear_in_the_context_with_a_cache_and_quadratic_without() {
    let shape = shape("SmolLM2 135M");
    let cached = |n| shape.decode_step_flops(1, n).unwrap().total();
    let whole = |n| shape.decode_step_without_cache_flops(1, n).unwrap().total();
    let slope = 30 * 4 * 9 * 64;
    for n in [1, 10, 1000, 8000] {
        assert_eq!(cached(n + 1) - cached(n), slope);
        assert_eq!(whole(n + 2) + whole(n) - 2 * whole(n + 1), slope, "second difference");
    }
    // 2 FLOPs per weight that multiplies: all but norms, the embedding being the head.
    let norms = u128::from(shape.parameters().unwrap().norms);
    assert_eq!(cached(1) - slope, 2 * (134_515_008 - norms));
}

#[test]
fn training_is_three_forwards_and_six_times_the_parameters_for_short_sequences() {
    for model in published_models().unwrap() {
        let shape = model.shape;
        let forward = shape.prefill_flops(2, 128, Pairs::Causal, Logits::All).unwrap();
        let step = shape.training_step_flops(2, 128, Pairs::Causal, Recompute::Nothing).unwrap();
        assert_eq!(step.total(), 3 * forward.total(), "{}", model.name);

        let active = shape.active_parameters().unwrap();
        let multiplying = active.non_embedding() + shape.vocab.get() * shape.hidden.get();
        let rule = six_n_flops(multiplying, 2 * 128).unwrap();
        let excess = (step.total() - step.attention) as f64 / rule as f64 - 1.0;
        assert!((-0.004..=0.0).contains(&excess), "{}: {excess}", model.name);
    }
}

#[test]
fn a_sliding_window_bounds_the_cache() {
    let mistral = shape("Mistral 7B v0.1");
    let full = shape("Mistral 7B v0.3");
    assert_eq!(mistral.kv_bytes(4096, 2, DType::F16).unwrap(), full.kv_bytes(4096, 2, DType::F16).unwrap());
    assert_eq!(mistral.kv_bytes(4096, 1, DType::F16).unwrap(), mistral.kv_bytes(32768, 1, DType::F16).unwrap());
    let per_token = full.kv_bytes_per_token(DType::F16).unwrap();
    assert_eq!(full.kv_bytes(32768, 3, DType::F16).unwrap(), 3 * 32768 * per_token);
}

#[test]
fn what_a_device_must_hold_is_the_sum_of_its_parts() {
    let shape = shape("Llama 3.1 70B");
    let footprint = shape.inference_footprint(32768, 20, DType::BF16).unwrap();
    assert_eq!(footprint.weights, 2 * 70_553_706_496);
    assert_eq!(footprint.kv_cache, 20 * 32768 * 327_680);
    let h100 = Hardware::named("h100-sxm").unwrap();
    // 141.1 + 214.7 = 355.9 GB on devices of 80.
    assert_eq!(footprint.devices_needed(&h100).unwrap(), 5);
    assert_eq!(footprint.devices_of(footprint.total().unwrap()).unwrap(), 1, "it fits exactly");
    assert_eq!(footprint.devices_of(footprint.total().unwrap() - 1).unwrap(), 2, "one byte is missing");

    let activations = Activations { dtype: DType::BF16, dropout: false, recompute: Recompute::Layer };
    let training = Training { batch: 1, tokens: 8192, state: StateBytes::ADAMW_MIXED, activations };
    let footprint = shape.training_footprint(&training).unwrap();
    assert_eq!(footprint.weights + footprint.gradients + footprint.optimiser, 16 * 70_553_706_496);
    assert_eq!(footprint.kv_cache, 0);
    let one_layer = Activations { recompute: Recompute::Attention, ..activations };
    let kept = 80 * 2 * 8192 * 8192 + shape.layer_activation_bytes(7, 1, 8192, one_layer).unwrap();
    assert_eq!(footprint.activations, kept + 8192 * (2 * 2 * 8192 + 4 * 128_256));
    assert_eq!(footprint.devices_needed(&h100).unwrap(), 15);
    assert_eq!(Footprint::default().total().unwrap(), 0);
}

#[test]
fn names_are_found_however_they_are_written_and_no_two_are_the_same() {
    for name in ["Llama 3.1 70B", "llama-3.1-70b", "LLAMA_3.1_70B", "llama3.1 70b", "meta-llama/Llama-3.1-70B"] {
        assert_eq!(published(name).unwrap().name, "Llama 3.1 70B", "{name}");
    }
    assert_eq!(published("gpt2").unwrap().name, "GPT-2 124M");
    assert_eq!(Hardware::named("rtx-4090").unwrap().name, "RTX 4090");

    let key = |name: &String| name.to_lowercase().replace([' ', '-', '_'], "");
    let models = published_models().unwrap();
    let devices = hardware::all().unwrap();
    for mut names in [
        models.iter().flat_map(|model| model.aliases.iter().chain([&model.name])).map(key).collect::<Vec<_>>(),
        devices.iter().flat_map(|device| device.aliases.iter().chain([&device.name])).map(key).collect(),
    ] {
        names.sort();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}

#[test]
fn an_unknown_name_lists_the_nearest_ones() {
    let message = published("lama 3.1 70b").unwrap_err().to_string();
    assert!(message.contains("\"lama 3.1 70b\"") && message.contains("nearest first: Llama 3.1 70B,"), "{message}");
    let message = Hardware::named("H10 PCIe").unwrap_err().to_string();
    assert!(message.contains("nearest first: H100 PCIe"), "{message}");
    for name in ["", "  ", "ø\u{1F600}", &"x".repeat(5000)] {
        assert!(published(name).is_err() && Hardware::named(name).is_err(), "{name:?}");
    }
    assert!(Hardware::named("T4").unwrap().peak(Precision::Bf16).unwrap_err().to_string().contains("bf16 on T4"));
}

#[test]
fn zero_and_overflowing_numbers_are_errors_that_name_the_number() {
    let shape = shape("SmolLM2 135M");
    let kept = Activations { dtype: DType::F32, dropout: true, recompute: Recompute::Nothing };
    let (causal, all, nothing) = (Pairs::Causal, Logits::All, Recompute::Nothing);
    for (name, error) in [
        ("batch", shape.prefill_flops(0, 1, causal, all).unwrap_err()),
        ("tokens", shape.prefill_flops(1, 0, causal, all).unwrap_err()),
        ("context", shape.decode_step_flops(1, 0).unwrap_err()),
        ("context", shape.kv_bytes(0, 1, DType::F32).unwrap_err()),
        ("tokens", shape.training_step_flops(1, 0, causal, nothing).unwrap_err()),
        ("new", shape.layer_operations(0, 1, 0, 0, DType::F32).unwrap_err()),
        ("layer", shape.layer_operations(30, 1, 1, 0, DType::F32).unwrap_err()),
        ("batch", shape.layer_activation_bytes(0, 0, 1, kept).unwrap_err()),
        ("flops", shape.prefill_flops(u64::MAX, u64::MAX, causal, all).unwrap_err()),
        ("flops", shape.layer_operations(0, 1 << 40, 1, 1 << 40, DType::F32).unwrap_err()),
        ("kv bytes", shape.kv_bytes(1 << 40, 1 << 20, DType::F32).unwrap_err()),
        ("activation bytes", shape.layer_activation_bytes(0, 1 << 20, 1 << 40, kept).unwrap_err()),
        ("vocab", padded_vocab(u64::MAX, 128).unwrap_err()),
        ("multiple", padded_vocab(5, 0).unwrap_err()),
        ("parameters", six_n_flops(0, 1).unwrap_err()),
        ("dtype", shape.weight_bytes(DType::F4).unwrap_err()),
    ] {
        assert!(error.to_string().starts_with(&format!("{name} = ")), "{name}: {error}");
    }
}

#[test]
fn a_shape_that_contradicts_itself_is_refused() {
    let text = |hidden: &str, kv_heads: &str, layers: &str| {
        format!(
            "vocab = 10\nhidden = {hidden}\ncontext = 10\nnorm = 'rms'\ntied = true\n\
             attention.grouped = {{ heads = 6, kv_heads = {kv_heads}, head_dim = 4 }}\nlayers = [{layers}]"
        )
    };
    let dense = "{ count = 2, feed_forward.dense = { width = 8 } }";
    let routed = "{ count = 2, feed_forward.experts = { experts = 4, experts_per_token = 5, expert = { width = 8 } } }";
    assert!(ModelShape::from_toml(&text("24", "2", dense)).is_ok());
    for (hidden, kv_heads, layers, expected) in [
        ("0", "2", dense, "hidden"),
        ("-3", "2", dense, "hidden"),
        ("24", "4", dense, "a divisor of heads = 6"),
        ("24", "2", "", "layers = none"),
        ("24", "2", routed, "at most experts = 4"),
        ("24", "2", "{ count = 2, feed_forward.dense = { width = 8, widht = 9 } }", "widht"),
        ("9223372036854775807", "2", dense, "parameters"),
    ] {
        let message = ModelShape::from_toml(&text(hidden, kv_heads, layers)).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn latent_attention_computes_in_the_latents_space_once_it_is_cached() {
    let shape = shape("DeepSeek-V3");
    assert!(matches!(shape.attention, Attention::Latent { .. }));
    let step = |context| shape.decode_step_flops(1, context).unwrap().attention;
    assert_eq!(step(11) - step(10), 61 * 2 * 128 * (512 + 64 + 512));
    let prefill = shape.prefill_flops(1, 2, Pairs::Square, Logits::Last).unwrap().attention;
    assert_eq!(prefill, 61 * 4 * 2 * 128 * (128 + 64 + 128));
}
