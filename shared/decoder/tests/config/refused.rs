//! Bad values, and settings that are not supported: one clear message each.

use super::{FAMILIES, full, read, refusal, with};
use decoder::Config;
use serde_json::{Value, json};

/// Asserts that the message about the changed config has all of `parts`.
fn refuses(family: &str, changes: Value, parts: &[&str]) {
    let message = refusal(&with(family, changes.clone()));
    assert!(message.starts_with("model/config.json: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "{family} with {changes}: {message:?} does not say {part:?}");
    }
}

#[test]
fn a_value_of_the_wrong_type_or_range_is_named_with_its_key() {
    let sizes = [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
    ];
    let bad = [json!(0), json!(-1), json!(2.5), json!("64"), json!(true), json!([64]), json!(1e300), json!(u64::MAX)];
    for family in FAMILIES {
        for key in sizes {
            for value in &bad {
                refuses(
                    family,
                    json!({ key: value }),
                    &[&format!("{key} = {value}: expected a whole number from 1 to ")],
                );
            }
        }
        for (key, values) in [
            ("rms_norm_eps", vec![json!(0), json!(-1e-5), json!("1e-5"), json!(1.5)]),
            ("rope_theta", vec![json!(0), json!(-10_000), json!(1), json!("10000")]),
            ("tie_word_embeddings", vec![json!("false"), json!(0)]),
            ("hidden_act", vec![json!("relu"), json!("quick_gelu"), json!(1)]),
            ("torch_dtype", vec![json!("float8_e4m3fn"), json!(32)]),
            ("bos_token_id", vec![json!(-1), json!(257), json!("1"), json!([1, 2]), json!(1.5)]),
            ("eos_token_id", vec![json!(-1), json!(257), json!([]), json!([2, "3"]), json!([2, 257])]),
            ("rope_scaling", vec![json!("linear"), json!(2.0)]),
            ("architectures", vec![json!("LlamaForCausalLM"), json!([1])]),
        ] {
            for value in values {
                refuses(family, json!({ key: value }), &[&format!("{key} = {value}: ")]);
            }
        }
    }
    for value in [json!(-1), json!(1.5), json!("11")] {
        refuses("mistral", json!({ "sliding_window": value }), &[&format!("sliding_window = {value}: ")]);
    }
}

#[test]
fn sizes_that_do_not_fit_together_name_the_legal_ones() {
    let heads = json!({ "hidden_size": 16, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": null });
    refuses("llama", heads, &["num_attention_heads = 3", "hidden_size = 16", "one of 1, 2, 4, 8, 16"]);
    refuses("llama", json!({ "num_key_value_heads": 3 }), &["num_key_value_heads = 3", "one of 1, 2, 4, 8"]);
    refuses("llama", json!({ "num_key_value_heads": 16 }), &["num_key_value_heads = 16", "num_attention_heads = 8"]);
    refuses("llama", json!({ "head_dim": 7 }), &["head_dim = 7", "even"]);
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_allocated() {
    refuses("llama", json!({ "num_hidden_layers": 10_001 }), &["num_hidden_layers = 10001", "10000"]);
    refuses("qwen2", json!({ "num_hidden_layers": 1_000_000_000 }), &["num_hidden_layers = 1000000000"]);
    let most = 1u64 << 31;
    let wide =
        json!({ "vocab_size": most, "hidden_size": most, "intermediate_size": most, "num_hidden_layers": 10_000 });
    refuses("llama", wide, &["vocab_size, hidden_size, num_hidden_layers, intermediate_size", "2^48"]);
    let all = json!({
        "vocab_size": most, "hidden_size": most, "intermediate_size": most, "num_hidden_layers": 10_000, "head_dim": most,
        "num_attention_heads": most, "num_key_value_heads": most, "max_position_embeddings": most,
    });
    refuses("llama", all, &["parameters"]);
}

#[test]
fn mixtures_of_experts_and_gpt2_are_known_but_not_supported_yet() {
    for (architecture, model_type) in [
        ("MixtralForCausalLM", "mixtral"),
        ("Qwen2MoeForCausalLM", "qwen2_moe"),
        ("Qwen3MoeForCausalLM", "qwen3_moe"),
        ("OlmoeForCausalLM", "olmoe"),
        ("GPT2LMHeadModel", "gpt2"),
    ] {
        let changes = json!({ "architectures": [architecture], "model_type": model_type });
        refuses("llama", changes, &[architecture, "known but not supported yet", "LlamaForCausalLM (llama)"]);
        refuses(
            "llama",
            json!({ "architectures": null, "model_type": model_type }),
            &[model_type, "not supported yet"],
        );
    }
    for key in ["num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "n_routed_experts"]
    {
        refuses("llama", json!({ key: 8 }), &[&format!("{key} = 8"), "experts"]);
        assert!(read(&with("llama", json!({ key: null }))).is_ok());
    }
}

#[test]
fn an_unknown_or_contradictory_architecture_is_named() {
    refuses(
        "llama",
        json!({ "architectures": ["FooForCausalLM"] }),
        &["FooForCausalLM", "unknown", "MistralForCausalLM"],
    );
    refuses("llama", json!({ "architectures": ["LlamaForSequenceClassification"] }), &["unknown architecture"]);
    refuses("llama", json!({ "model_type": "qwen2" }), &["model_type = \"qwen2\"", "contradicts"]);
}

#[test]
fn quantised_checkpoints_are_refused() {
    let quantised = json!({ "quantization_config": { "quant_method": "gptq", "bits": 4 } });
    refuses("llama", quantised, &["quantization_config", "gptq", "GGUF"]);
}

#[test]
fn settings_that_would_change_the_numbers_are_refused_unless_neutral() {
    let settings = [
        ("attn_logit_softcapping", json!(50.0)),
        ("final_logit_softcapping", json!(30.0)),
        ("logits_scaling", json!(8.0)),
        ("query_pre_attn_scalar", json!(256)),
        ("attention_multiplier", json!(0.01)),
        ("embedding_multiplier", json!(12.0)),
        ("residual_multiplier", json!(0.2)),
        ("clip_qkv", json!(8.0)),
        ("qk_layernorm", json!(true)),
        ("use_qk_norm", json!(true)),
        ("no_rope_layers", json!([1, 0, 1])),
        ("pretraining_tp", json!(2)),
        ("rope_interleaved", json!(true)),
        ("partial_rotary_factor", json!(0.5)),
        ("attention_chunk_size", json!(8192)),
        ("dual_chunk_attention_config", json!({ "chunk_size": 8 })),
        ("text_config", json!({ "hidden_size": 8 })),
        ("some_future_attention", json!("fancy")),
        ("alibi", json!(true)),
    ];
    for (key, value) in settings {
        refuses("llama", json!({ key: value }), &[&format!("{key} = {value}: ")]);
        assert!(read(&with("llama", json!({ key: null }))).is_ok(), "{key} = null");
    }
    for (key, neutral) in [
        ("logits_scaling", json!(1.0)),
        ("pretraining_tp", json!(1)),
        ("use_qk_norm", json!(false)),
        ("rope_interleaved", json!(false)),
        ("partial_rotary_factor", json!(1.0)),
        ("no_rope_layers", json!([])),
    ] {
        assert_eq!(read(&with("llama", json!({ key: neutral }))).unwrap(), read(&full("llama")).unwrap(), "{key}");
    }
}

#[test]
fn settings_that_change_no_number_are_ignored() {
    let harmless = json!({
        "_name_or_path": "somewhere", "attention_dropout": 0.5, "unsloth_version": "2025.1", "auto_map": { "a": "b" },
        "pad_token_id": -1, "transformers.js_config": { "dtype": "q4" }, "is_llama_config": true, "max_length": 4096,
        "_attn_implementation_autoset": true, "output_attentions": true, "task_specific_params": { "x": 1 },
    });
    for family in FAMILIES {
        assert_eq!(read(&with(family, harmless.clone())).unwrap(), read(&full(family)).unwrap(), "{family}");
    }
}

#[test]
fn biases_and_windows_that_a_family_does_not_have_are_refused() {
    refuses("mistral", json!({ "attention_bias": true }), &["attention_bias = true", "expected false"]);
    refuses("qwen2", json!({ "attention_bias": false }), &["attention_bias = false"]);
    refuses("qwen3", json!({ "mlp_bias": true }), &["mlp_bias = true"]);
    refuses("llama", json!({ "sliding_window": 4096 }), &["sliding_window = 4096", "null or 0"]);
    refuses("qwen2", json!({ "layer_types": ["full_attention"] }), &["layer_types", "3 entries"]);
    let linear = json!({ "layer_types": ["full_attention", "linear_attention", "full_attention"] });
    refuses("qwen2", linear, &["linear_attention is not supported"]);
    let switched_off = json!({ "use_sliding_window": false, "layer_types": vec!["sliding_attention"; 3] });
    refuses("qwen3", switched_off, &["layer_types", "sliding_window"]);
}

#[test]
fn text_that_is_not_a_json_object_is_refused_with_its_file() {
    for text in ["", "<!doctype html>", "[1, 2]", "{\"a\": ", "{\"a\": NaN}"] {
        let message = Config::from_json(text, None, "model/config.json").unwrap_err().to_string();
        assert!(message.starts_with("model/config.json: "), "{message}");
        let config = serde_json::to_string(&full("llama")).unwrap();
        let message = Config::from_json(&config, Some(text), "model/config.json").unwrap_err().to_string();
        assert!(message.starts_with("model/generation_config.json: "), "{message}");
    }
}
