//! The oracle checkpoints: their configs mean what they should, and ask for exactly the tensors that are there.

use decoder::Config;
use decoder::config::{Activation, Family, QkNorm, RopeScaling};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tiny").join(name)
}

fn config(name: &str) -> Config {
    let path = folder(name).join("config.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Config::from_json(&text, None, &path.display().to_string()).unwrap()
}

/// Names and shapes of all tensors in the checkpoint's files.
fn tensors(name: &str) -> BTreeMap<String, Vec<usize>> {
    let mut tensors = BTreeMap::new();
    for entry in std::fs::read_dir(folder(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            let bytes = std::fs::read(&path).unwrap();
            let file = SafeTensors::deserialize(&bytes).unwrap();
            tensors.extend(file.iter().map(|(name, view)| (name.to_owned(), view.shape().to_vec())));
        }
    }
    tensors
}

#[test]
fn each_config_asks_for_exactly_the_tensors_of_its_checkpoint() {
    for name in NAMES {
        let config = config(name);
        let expected: BTreeMap<String, Vec<usize>> =
            config.weights().into_iter().map(|weight| (weight.name.to_string(), weight.shape)).collect();
        let found = tensors(name);
        assert_eq!(expected, found, "{name}");
        let elements: usize = found.values().map(|shape| shape.iter().product::<usize>()).sum();
        assert_eq!(config.parameters(), elements as u64, "{name}");
    }
}

#[test]
fn each_weight_is_listed_once_and_found_again_by_role_and_layer() {
    for name in NAMES {
        let config = config(name);
        let weights = config.weights();
        let names: std::collections::BTreeSet<_> = weights.iter().map(|weight| weight.name.clone()).collect();
        assert_eq!(names.len(), weights.len(), "{name}: a name appears twice");
        for weight in weights {
            assert!(config.has(weight.role), "{name}: {:?}", weight.role);
            assert_eq!(config.weight(weight.role, weight.layer.unwrap_or(0)), weight, "{name}");
        }
    }
}

#[test]
fn what_is_special_about_each_checkpoint_is_in_its_config() {
    let gqa = config("llama-gqa");
    assert_eq!((gqa.family, gqa.activation, gqa.qk_norm), (Family::Llama, Activation::Silu, QkNorm::None));
    assert_eq!((gqa.vocab, gqa.hidden, gqa.layers, gqa.heads, gqa.kv_heads), (256, 64, 4, 8, 2));
    assert_eq!((gqa.head_dim, gqa.ffn, gqa.context, gqa.norm_eps), (8, 172, 128, 1e-5));
    assert_eq!((gqa.rope.theta, &gqa.rope.scaling), (10_000.0, &RopeScaling::None));
    assert_eq!((gqa.bos, gqa.eos.as_slice(), gqa.tied), (Some(1), [2].as_slice(), false));
    assert_eq!((gqa.windows.as_slice(), gqa.dtype), ([None; 4].as_slice(), Some(candle_core::DType::F32)));
    assert!(!gqa.qkv_bias && !gqa.output_bias && !gqa.ffn_bias);

    let head_dim = config("llama-headdim");
    assert_eq!((head_dim.head_dim, head_dim.kv_heads, head_dim.vocab), (16, 4, 321));
    let bias = config("llama-mqa-bias");
    assert_eq!((bias.kv_heads, bias.qkv_bias, bias.output_bias, bias.ffn_bias), (1, true, true, true));
    let odd = config("llama-tied-odd");
    assert_eq!((odd.layers, odd.vocab, odd.tied, odd.norm_eps), (5, 259, true, 1e-6));
    let llama3 = config("llama-rope-llama3");
    let scaling =
        RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 64 };
    assert_eq!((llama3.rope.scaling, llama3.context, llama3.head_dim), (scaling, 512, 8));
    assert!(config("llama-sharded").tied);
    assert_eq!(config("llama-bf16").dtype, Some(candle_core::DType::BF16));

    let qwen2 = config("qwen2-tied");
    assert_eq!((qwen2.family, qwen2.rope.theta, qwen2.tied), (Family::Qwen2, 1_000_000.0, true));
    assert_eq!((qwen2.qkv_bias, qwen2.output_bias, qwen2.ffn_bias), (true, false, false));
    let qwen3 = config("qwen3");
    assert_eq!((qwen3.family, qwen3.qk_norm, qwen3.head_dim), (Family::Qwen3, QkNorm::PerHead, 16));
    assert!(!qwen3.qkv_bias && !qwen3.output_bias);
}
