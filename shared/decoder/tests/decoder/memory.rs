//! Measured bytes: of weights, of caches, and that nothing is left over.

use super::models::{Model, all, config, tokens};
use super::sums::backward;
use candle_core::{DType, Device};
use decoder::cache::KvCache;
use decoder::generation::{Options, generate};
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder};
use ledger::{Kind, Ledger};
use serde_json::json;
use std::ops::ControlFlow;

/// Most bytes of bookkeeping (shape, strides, locks) per tensor beside its elements.
const DESCRIPTOR: u64 = 512;

fn held(kind: Kind) -> u64 {
    Ledger::of_this_thread().current(kind).unwrap()
}

fn load(config: &Config, dtype: DType) -> Decoder {
    Decoder::load(config, &Random::new(1), dtype, &Device::Cpu, &Split::whole()).unwrap()
}

fn predicted(config: &Config, dtype: DType) -> u64 {
    config.weights().iter().map(|spec| spec.elements() * dtype.size_in_bytes() as u64).sum()
}

/// Bytes that the weights of a loaded model hold, measured.
fn weight_bytes(config: &Config, dtype: DType) -> u64 {
    let ledger = Ledger::claim("weights").unwrap();
    let _entered = ledger.enter();
    let model = load(config, dtype);
    let bytes = held(Kind::Weights);
    assert_eq!(ledger.device_current().unwrap(), bytes, "loading holds weights and nothing else");
    drop(model);
    assert_eq!(ledger.device_current().unwrap(), 0, "after the model was dropped");
    bytes
}

#[test]
fn a_loaded_model_holds_its_weights_and_nothing_else() {
    for model in all() {
        for dtype in [DType::F64, DType::F32, DType::F16] {
            let (found, predicted) = (weight_bytes(&model.config, dtype), predicted(&model.config, dtype));
            let tensors = model.config.weights().len() as u64;
            assert!(
                (predicted..predicted + tensors * DESCRIPTOR).contains(&found),
                "{}, {dtype:?}: {found} bytes, {predicted} predicted",
                model.name
            );
        }
    }
}

/// The bookkeeping per tensor is the same, so between two models of as many tensors the difference is exact.
#[test]
fn the_bytes_of_weights_grow_with_their_elements_exactly() {
    let (small, large) =
        (config(&json!({})), config(&json!({ "hidden_size": 24, "vocab_size": 101, "intermediate_size": 33 })));
    for dtype in [DType::F64, DType::F32, DType::BF16] {
        let found = weight_bytes(&large, dtype) - weight_bytes(&small, dtype);
        assert_eq!(found, predicted(&large, dtype) - predicted(&small, dtype), "{dtype:?}");
    }
}

#[test]
fn a_cache_holds_its_keys_and_values_exactly_and_never_grows() {
    for model in all() {
        let ledger = Ledger::claim("cache").unwrap();
        let _entered = ledger.enter();
        let decoder = model.load(DType::F32);
        let bytes = |capacity: usize| {
            let cache = decoder.cache(2, capacity).unwrap();
            let expected = 2 * 4 * model.config.layers * 2 * model.config.kv_width() * capacity;
            assert_eq!(cache.bytes(), expected as u64, "{}", model.name);
            (held(Kind::KvCache), cache.bytes())
        };
        let ((small, of_7), (large, of_20)) = (bytes(7), bytes(20));
        assert_eq!(large - small, of_20 - of_7, "{}", model.name);
        assert!(small - of_7 <= 2 * model.config.layers as u64 * DESCRIPTOR, "{}: {small} for {of_7}", model.name);
        assert_eq!(held(Kind::KvCache), 0, "{}: after it was dropped", model.name);

        let mut cache = decoder.cache(1, 20).unwrap();
        let before = held(Kind::KvCache);
        let all = model.rows(&[20]);
        super::feeding::feed(&decoder, &mut cache, &all, 0, &[vec![5, 1, 1, 13]]);
        assert_eq!(held(Kind::KvCache), before, "{}: after it was filled", model.name);
    }
}

/// A model loaded under a ledger of its own, so that other tests' bytes are not seen.
fn measured(model: &Model, test: impl FnOnce(&Ledger, &Decoder)) {
    let ledger = Ledger::claim("test").unwrap();
    {
        let _entered = ledger.enter();
        let decoder = model.load(DType::F32);
        test(&ledger, &decoder);
    }
    assert_eq!(ledger.device_current().unwrap(), 0, "{}: after everything was dropped", model.name);
}

#[test]
fn no_kind_of_device_memory_grows_while_fifty_tokens_are_generated() {
    for model in all() {
        measured(&model, |ledger, decoder| {
            let mut seen = Vec::new();
            let options = Options { max_tokens: 50, stop_at_eos: false, ..Options::default() };
            let prompts = model.rows(&[6, 2]);
            generate(decoder, &Context::inference(), &prompts, &options, |_, _| {
                let figures = ledger.snapshot().unwrap();
                seen.push(Kind::ALL.map(|kind| if kind.is_on_device() { figures.of(kind).current } else { 0 }));
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
            assert_eq!(seen.len(), 100, "{}", model.name);
            assert!(seen.iter().all(|figures| *figures == seen[0]), "{}: {seen:?}", model.name);
        });
    }
}

#[test]
fn activations_are_gone_after_a_forward_and_after_a_backward() {
    for model in all() {
        measured(&model, |ledger, decoder| {
            let rows = model.rows(&[9, 4]);
            let weights = held(Kind::Weights);
            for _ in 0..2 {
                ledger.reset_peaks();
                drop(decoder.logits(&Context::inference(), &tokens(&rows), None).unwrap());
                assert!(ledger.peak(Kind::Activations).unwrap() > 0, "{}: nothing was measured", model.name);
                assert_eq!(ledger.device_current().unwrap(), weights, "{}: after a forward", model.name);
                drop(backward(decoder, &tokens(&rows), &model.targets(&rows)));
                assert_eq!(ledger.device_current().unwrap(), weights, "{}: after a backward", model.name);
            }
        });
    }
}

/// Inference keeps no graph: the peak of a forward does not grow with the number of layers.
#[test]
fn the_activations_of_a_forward_without_gradients_do_not_grow_with_the_layers() {
    let peak = |layers: usize| {
        let model = Model::new("layers", &json!({ "num_hidden_layers": layers }));
        let mut peak = 0;
        measured(&model, |ledger, decoder| {
            ledger.reset_peaks();
            drop(decoder.logits(&Context::inference(), &tokens(&model.rows(&[40])), None).unwrap());
            peak = ledger.peak(Kind::Activations).unwrap();
        });
        peak
    };
    assert_eq!(peak(2), peak(12));
}
