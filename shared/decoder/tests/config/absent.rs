//! Every optional key, absent and null in turn, in every family.

use super::{FAMILIES, full, read, refusal};
use decoder::Config;
use decoder::config::{Activation, RopeScaling};
use serde_json::Value;

/// What a config becomes when `key` is absent (`null = false`) or null.
fn without(key: &str, null: bool, config: &mut Config) {
    let family = config.family.model_type();
    let mistral = family == "mistral";
    let qwen = family.starts_with("qwen");
    match key {
        "num_key_value_heads" if mistral || null => config.kv_heads = 8,
        "num_key_value_heads" if qwen => config.kv_heads = 32,
        "num_key_value_heads" => config.kv_heads = config.heads,
        "head_dim" if family == "qwen3" && !null => config.head_dim = 128,
        "head_dim" => config.head_dim = config.hidden / config.heads,
        "hidden_act" => config.activation = Activation::Silu,
        "rms_norm_eps" => config.norm_eps = 1e-6,
        "max_position_embeddings" => {
            config.context = if mistral {
                131_072
            } else if qwen {
                32_768
            } else {
                2_048
            };
        }
        "tie_word_embeddings" => config.tied = false,
        "bos_token_id" => config.bos = (!qwen && !null).then_some(1),
        "eos_token_id" => config.eos = if qwen || null { Vec::new() } else { vec![2] },
        "rope_theta" => config.rope.theta = 10_000.0,
        "rope_scaling" => config.rope.scaling = RopeScaling::None,
        "torch_dtype" => config.dtype = None,
        "attention_bias" => (config.qkv_bias, config.output_bias) = (false, false),
        "mlp_bias" => config.ffn_bias = false,
        "sliding_window" if null => config.windows = vec![None; 3],
        "sliding_window" if mistral => config.windows = vec![Some(4_096); 3],
        "sliding_window" => config.windows = vec![None, Some(4_096), Some(4_096)],
        "use_sliding_window" | "max_window_layers" => config.windows = vec![None; 3],
        // One of the two names is enough; the rest are not read.
        _ => {}
    }
}

const REQUIRED: [&str; 5] =
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"];

#[test]
fn an_optional_key_that_is_absent_or_null_has_its_familys_default() {
    for family in FAMILIES {
        let full = full(family);
        let complete = read(&full).unwrap();
        for key in full.keys().filter(|key| !REQUIRED.contains(&key.as_str())) {
            for null in [false, true] {
                let mut config = full.clone();
                config.remove(key);
                if null {
                    config.insert(key.clone(), Value::Null);
                }
                let mut expected = complete.clone();
                without(key, null, &mut expected);
                if expected.heads.is_multiple_of(expected.kv_heads) {
                    assert_eq!(read(&config).unwrap(), expected, "{family}, {key}, null: {null}");
                } else {
                    // Qwen assumes 32 key heads, which this model's 8 heads are too few for.
                    let message = refusal(&config);
                    assert!(message.contains("num_key_value_heads = 32 (assumed for qwen"), "{message}");
                }
            }
        }
    }
}

#[test]
fn a_size_that_is_absent_or_null_is_named() {
    for family in FAMILIES {
        for key in REQUIRED {
            let mut config = full(family);
            config.remove(key);
            assert_eq!(
                refusal(&config),
                format!("model/config.json: {key} = absent: expected a whole number from 1 to 2147483648")
            );
            config.insert(key.to_owned(), Value::Null);
            assert!(refusal(&config).contains(&format!("{key} = null: expected a whole number")));
        }
    }
}

#[test]
fn a_config_that_names_no_architecture_says_which_there_are() {
    let mut config = full("llama");
    config.remove("model_type");
    config.remove("architectures");
    let message = refusal(&config);
    assert!(message.contains("architectures = absent") && message.contains("Qwen3ForCausalLM (qwen3)"), "{message}");
}
