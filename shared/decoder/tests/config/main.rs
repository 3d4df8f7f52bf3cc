//! Configs: what a `config.json` or GGUF metadata means, what is refused and how, and which weights follow from it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod absent;
mod checkpoints;
mod frequencies;
mod gguf;
mod refused;
mod spellings;
mod write;

use decoder::{Config, Error};
use serde_json::{Map, Value, json};

/// Families with a plain config of this project's sizes.
const FAMILIES: [&str; 4] = ["llama", "mistral", "qwen2", "qwen3"];

/// A full config of a family, none of whose optional keys has its default value.
fn full(model_type: &str) -> Map<String, Value> {
    let mut config = json!({
        "model_type": model_type, "vocab_size": 257, "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 3,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "hidden_act": "gelu", "rms_norm_eps": 3e-5,
        "max_position_embeddings": 96, "tie_word_embeddings": true, "bos_token_id": 5, "eos_token_id": [7, 6],
        "rope_theta": 70000.0, "rope_scaling": { "type": "linear", "factor": 2.0 }, "torch_dtype": "bfloat16",
        "transformers_version": "4.46.0", "use_cache": true, "initializer_range": 0.02, "attention_dropout": 0.1,
    });
    let own = match model_type {
        "llama" => {
            json!({ "architectures": ["LlamaForCausalLM"], "attention_bias": true, "mlp_bias": true, "pretraining_tp": 1 })
        }
        "mistral" => json!({ "architectures": ["MistralForCausalLM"], "sliding_window": 11 }),
        "qwen2" => json!({
            "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": true, "sliding_window": 11, "max_window_layers": 1,
        }),
        "qwen3" => json!({
            "architectures": ["Qwen3ForCausalLM"], "attention_bias": true, "use_sliding_window": true, "sliding_window": 11,
            "max_window_layers": 1,
        }),
        _ => panic!("no config for {model_type}"),
    };
    let config = config.as_object_mut().unwrap();
    config.extend(own.as_object().unwrap().clone());
    config.clone()
}

/// `full`, with some keys set to other values.
fn with(model_type: &str, changes: Value) -> Map<String, Value> {
    let mut config = full(model_type);
    config.extend(changes.as_object().unwrap().clone());
    config
}

fn read(config: &Map<String, Value>) -> Result<Config, Error> {
    Config::from_json(&serde_json::to_string(config).unwrap(), None, "model/config.json")
}

/// The message about a config that must be refused.
fn refusal(config: &Map<String, Value>) -> String {
    match read(config) {
        Ok(config) => panic!("must be refused, was read as {config:?}"),
        Err(error) => error.to_string(),
    }
}

/// A generator of test inputs (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A whole number in `low..=high`.
    fn whole(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    /// A number in `low..high`.
    fn real(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
