//! Shapes against the checkpoints of `tests/fixtures/tiny`: the sum of the elements in the safetensors headers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::config::{Activation, Family, Rope, RopeScaling};
use serde_json::Value;
use std::path::PathBuf;

const DENSE: [&str; 9] = [
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
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tiny").join(name)
}

/// Elements of all tensors, read from the headers alone.
fn elements(name: &str) -> u64 {
    let files = std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    let weights = files.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    let mut sum = 0;
    for path in weights {
        let bytes = std::fs::read(path).unwrap();
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        sum += header.tensors().values().map(|info| info.shape.iter().product::<usize>() as u64).sum::<u64>();
    }
    sum
}

/// The sizes in a fixture's `config.json`.
fn config(name: &str) -> Config {
    let json: Value = serde_json::from_slice(&std::fs::read(folder(name).join("config.json")).unwrap()).unwrap();
    let size = |key: &str| json[key].as_u64().map(|size| size as usize);
    let on = |key: &str| json[key].as_bool().unwrap_or(false);
    let model_type = json["model_type"].as_str().unwrap();
    let (hidden, heads, layers) =
        (size("hidden_size").unwrap(), size("num_attention_heads").unwrap(), size("num_hidden_layers").unwrap());
    Config {
        family: Family::Llama,
        vocab: size("vocab_size").unwrap(),
        hidden,
        layers,
        heads,
        kv_heads: size("num_key_value_heads").unwrap(),
        head_dim: size("head_dim").unwrap_or(hidden / heads),
        ffn: size("intermediate_size").unwrap(),
        activation: Activation::Silu,
        norm_eps: 1e-5,
        rope: Rope { theta: 1e4, scaling: RopeScaling::None },
        qkv_bias: on("attention_bias") || model_type == "qwen2",
        output_bias: on("attention_bias"),
        ffn_bias: on("mlp_bias"),
        qk_norm: if model_type == "qwen3" { config::QkNorm::PerHead } else { config::QkNorm::None },
        windows: vec![None; layers],
        tied: on("tie_word_embeddings"),
        context: size("max_position_embeddings").unwrap(),
        bos: None,
        eos: Vec::new(),
        dtype: None,
    }
}

#[test]
fn a_dense_model_has_as_many_parameters_as_its_checkpoint_has_elements() {
    for name in DENSE {
        let shape = ModelShape::from_config(&config(name)).unwrap();
        assert_eq!(shape.parameters().unwrap().total(), elements(name), "{name}");
        assert_eq!(shape.active_parameters().unwrap(), shape.parameters().unwrap(), "{name}: all are active");
    }
}

#[test]
fn a_model_of_experts_has_as_many_parameters_as_pytorch_counts() {
    let base = "vocab = 256\nhidden = 64\ncontext = 128\nnorm = 'rms'\ntied = false\n";
    let experts = "experts = 8, experts_per_token = 2, expert = { width = 44 }";
    // The parameters that transformers counts in a small model of each kind.
    for (name, parameters, attention, more) in [
        ("mixtral", 354_880, "kv_heads = 4", ""),
        ("olmoe", 355_264, "kv_heads = 4, qk_norm = 'whole_projection'", ""),
        (
            "qwen2-moe",
            387_264,
            "kv_heads = 2, qkv_bias = true",
            ", shared = { experts = 1, expert = { width = 52 }, gate = true }",
        ),
    ] {
        let text = format!(
            "{base}attention.grouped = {{ heads = 8, head_dim = 8, {attention} }}\n\
             layers = [{{ count = 4, feed_forward.experts = {{ {experts}{more} }} }}]"
        );
        let shape = ModelShape::from_toml(&text).unwrap();
        assert_eq!(shape.parameters().unwrap().total(), parameters, "{name}");
        let idle = shape.parameters().unwrap().total() - shape.active_parameters().unwrap().total();
        assert_eq!(idle, 4 * 6 * 3 * 64 * 44, "{name}: six of eight experts in each of four layers are idle");
    }
}

#[test]
fn a_size_of_zero_in_a_config_is_an_error_that_names_it() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 8] = [
        ("vocab", |config| config.vocab = 0),
        ("hidden", |config| config.hidden = 0),
        ("heads", |config| config.heads = 0),
        ("kv_heads", |config| config.kv_heads = 0),
        ("head_dim", |config| config.head_dim = 0),
        ("ffn", |config| config.ffn = 0),
        ("context", |config| config.context = 0),
        ("window", |config| config.windows = vec![Some(0); config.layers]),
    ];
    for (name, change) in changes {
        let mut config = config("llama-gqa");
        change(&mut config);
        let message = ModelShape::from_config(&config).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{name} = 0")), "{message}");
    }
}

#[test]
fn layers_with_equal_windows_become_one_run() {
    let mut config = config("llama-gqa");
    config.windows = vec![Some(8), Some(8), None, Some(8)];
    let shape = ModelShape::from_config(&config).unwrap();
    let runs: Vec<_> = shape.layers.iter().map(|run| (run.count.get(), run.window.map(Size::get))).collect();
    assert_eq!(runs, [(2, Some(8)), (1, None), (1, Some(8))]);
    config.windows.pop();
    assert!(ModelShape::from_config(&config).is_err(), "three windows for four layers");
}
