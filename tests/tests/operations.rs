//! What the decoder is heard to compute is what the formulas say, to the last FLOP and byte: every matrix product of every layer,
//! in prefill, in chunks and in decode steps, with and without windows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device};
use decoder::cache::KvCache;
use decoder::random::Rng;
use decoder::shape::{Logits, ModelShape, Pairs};
use decoder::source::Source;
use decoder::split::{Block, Split};
use decoder::weights::Weights;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder, Tokens};
use lab::anatomy::{Event, Pass, Point, Step, beside_formulas, observe};
use ledger::{Operation, Phase, Record};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const FOLDERS: [&str; 9] = [
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

fn fixture(name: &str) -> (Config, Box<dyn Weights>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny").join(name);
    let source = Source::resolve(folder.to_str().unwrap(), None, &folder).unwrap();
    (source.config().unwrap(), source.weights().unwrap())
}

fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn between(rng: &mut Rng, least: usize, most: usize) -> usize {
    least + rng.below(most - least + 1)
}

/// A small model of random sizes; a window in some layers or in all, biases and norms on q and k now and then.
fn random_config(rng: &mut Rng) -> Config {
    let (heads_per_key, kv_heads) = (between(rng, 1, 4), between(rng, 1, 3));
    let window = between(rng, 1, 12);
    let family = ["llama", "mistral", "qwen2", "qwen3"][rng.below(4)];
    let layers = between(rng, 1, 3);
    let text = serde_json::json!({
        "model_type": family,
        "hidden_size": between(rng, 2, 40),
        "intermediate_size": between(rng, 1, 50),
        "num_hidden_layers": layers,
        "num_attention_heads": heads_per_key * kv_heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 2 * between(rng, 1, 12),
        "vocab_size": between(rng, 2, 90),
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": rng.below(2) == 0,
        "sliding_window": if family == "llama" { None } else { Some(window) },
        "use_sliding_window": family.starts_with("qwen") && rng.below(2) == 0,
        "max_window_layers": rng.below(layers + 1),
    });
    Config::from_json(&text.to_string(), None, "random config").unwrap()
}

/// Runs `new` tokens after `past` ones through each layer in turn and compares.
fn check(model: &Decoder, weights: DType, batch: usize, new: usize, past: usize, what: &str) {
    let config = model.config();
    let shape = ModelShape::from_config(config).unwrap();
    for layer in 0..config.layers {
        let mut cache = model.cache(batch, past + new).unwrap();
        let ids = |length: usize| (0..length).map(|id| (id % config.vocab) as u32).collect::<Vec<_>>();
        if past > 0 {
            let row = ids(past);
            let before = Tokens::new(&vec![&row[..]; batch], vec![0; batch], &Device::Cpu).unwrap();
            model.hidden(&Context::inference(), &before, Some(&mut cache)).unwrap();
        }
        let row = ids(new);
        let tokens = Tokens::new(&vec![&row[..]; batch], vec![past; batch], &Device::Cpu).unwrap();
        let cache = Some(&mut cache as &mut dyn KvCache);
        let events = observe(model, &Context::inference(), &tokens, layer, cache).unwrap();
        let pass =
            Pass { batch: batch as u64, new: new as u64, past: past as u64, weights, activations: model.activations() };
        let steps = beside_formulas(&events, &shape, layer as u64, pass).unwrap();
        let compared: Vec<&Step> = steps.iter().filter(|step| step.holds().is_some()).collect();
        assert_eq!(compared.len(), 9, "{what}: q, k, v, attention, o, gate, up, down and the head have formulas");
        for step in compared {
            assert_eq!(step.holds(), Some(true), "{what}, layer {layer}, {new} after {past}, batch {batch}: {step:?}");
        }
        // Nothing but element-wise work is without a formula.
        for step in steps.iter().filter(|step| step.holds().is_none()) {
            if let Step::Operation { operation, .. } = step {
                assert!(
                    ["embedding", "rms_norm", "rotary", "bias", "gated", "add"].contains(operation),
                    "{what}: {step:?}"
                );
            }
        }
    }
}

#[test]
fn every_matrix_product_of_the_oracle_folders_costs_what_the_formula_says() {
    let seed = fresh_seed();
    let mut rng = Rng::new(seed);
    for name in FOLDERS {
        let (config, weights) = fixture(name);
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let model = Decoder::load(&config, &*weights, dtype, &Device::Cpu, &Split::whole()).unwrap();
            let (batch, prompt) = (between(&mut rng, 1, 3), between(&mut rng, 2, 20));
            let what = format!("{name}, {dtype:?}, seed {seed}");
            check(&model, dtype, batch, prompt, 0, &what);
            check(&model, dtype, batch, 1, prompt, &what);
        }
    }
}

#[test]
fn every_matrix_product_of_random_shapes_costs_what_the_formula_says() {
    let seed = fresh_seed();
    let mut rng = Rng::new(seed);
    let mut windows = 0;
    for case in 0..40 {
        let config = random_config(&mut rng);
        windows += config.windows.iter().flatten().count();
        let model = Decoder::load(&config, &Random::new(seed), DType::F32, &Device::Cpu, &Split::whole()).unwrap();
        let (batch, past, chunk) = (between(&mut rng, 1, 3), between(&mut rng, 1, 30), between(&mut rng, 2, 30));
        let what = format!("case {case} of seed {seed}, {config:?}");
        check(&model, DType::F32, batch, past, 0, &what);
        check(&model, DType::F32, batch, chunk, past, &what);
        check(&model, DType::F32, batch, 1, past, &what);
    }
    assert!(windows > 0, "seed {seed}: no layer had a window");
}

fn products(operations: &[Operation]) -> u64 {
    let product = |operation: &&Operation| ["linear", "attention", "head_loss"].contains(&operation.name);
    operations.iter().filter(product).map(|operation| operation.flops).sum()
}

#[test]
fn a_whole_forward_costs_what_the_formula_says() {
    let seed = fresh_seed();
    let mut rng = Rng::new(seed);
    for case in 0..20 {
        let config = random_config(&mut rng);
        let what = format!("case {case} of seed {seed}, {config:?}");
        let shape = ModelShape::from_config(&config).unwrap();
        let model = Decoder::load(&config, &Random::new(seed), DType::F32, &Device::Cpu, &Split::whole()).unwrap();
        let (batch, prompt) = (between(&mut rng, 1, 3), between(&mut rng, 1, 40));
        let record = Arc::new(Record::default());
        let ctx = Context::inference().with_observer(record.clone());
        let row = vec![1; prompt];
        let tokens = Tokens::from_zero(&vec![&row[..]; batch], &Device::Cpu).unwrap();

        let mut cache = model.cache(batch, prompt + 1).unwrap();
        model.next_token_logits(&ctx, &tokens, Some(&mut cache)).unwrap();
        let expected = shape.prefill_flops(batch as u64, prompt as u64, Pairs::Causal, Logits::Last).unwrap();
        assert_eq!(u128::from(products(&record.take())), expected.total(), "prefill, {what}");

        let next = Tokens::new(&vec![&[0][..]; batch], vec![prompt; batch], &Device::Cpu).unwrap();
        model.next_token_logits(&ctx, &next, Some(&mut cache)).unwrap();
        let expected = shape.decode_step_flops(batch as u64, prompt as u64 + 1).unwrap();
        assert_eq!(u128::from(products(&record.take())), expected.total(), "decode step, {what}");

        model.loss(&ctx, &tokens, &vec![0; batch * prompt]).unwrap();
        let expected = shape.prefill_flops(batch as u64, prompt as u64, Pairs::Causal, Logits::All).unwrap();
        let heard = record.take();
        assert_eq!(u128::from(products(&heard)), expected.total(), "loss, {what}");
        assert!(heard.iter().all(|operation| operation.phase == Phase::Forward), "{what}");
    }
}

#[test]
fn the_split_points_are_passed_in_the_order_of_the_figure() {
    let (config, weights) = fixture("llama-gqa");
    let model = Decoder::load(&config, &*weights, DType::F32, &Device::Cpu, &Split::whole()).unwrap();
    let tokens = Tokens::from_zero(&[&[5, 6, 7]], &Device::Cpu).unwrap();
    let events = observe(&model, &Context::inference(), &tokens, 2, None).unwrap();
    let points: Vec<Point> =
        events.iter().filter_map(|event| if let Event::Point(point) = event { Some(*point) } else { None }).collect();
    let block = |block| [Point::Enter(block), Point::Leave(block)];
    let [enter, leave] = block(Block::Attention);
    let [enter_ffn, leave_ffn] = block(Block::FeedForward);
    assert_eq!(points, [Point::Embed, enter, Point::Attend, leave, enter_ffn, leave_ffn, Point::Logits]);
    let labels: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::Operation(operation) => Some(operation.label.to_string()),
            Event::Point(_) => None,
        })
        .filter(|label| label.contains("layers"))
        .collect();
    assert!(labels.iter().all(|label| label.starts_with("model.layers.2.")), "only the layer asked for: {labels:?}");
}
