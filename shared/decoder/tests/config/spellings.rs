//! The same fact in different spellings.

use super::{full, read, refusal, with};
use decoder::Config;
use decoder::config::RopeScaling;
use serde_json::{Value, json};

/// A Llama config with these rotary keys, and context 4096.
fn rope(keys: Value) -> serde_json::Map<String, Value> {
    let mut config = full("llama");
    config.remove("rope_theta");
    config.remove("rope_scaling");
    config.insert("max_position_embeddings".to_owned(), json!(4096));
    config.extend(keys.as_object().unwrap().clone());
    config
}

#[test]
fn rotary_settings_mean_the_same_in_the_old_and_the_new_spelling() {
    let yarn = json!({ "factor": 4.0, "original_max_position_embeddings": 1024, "beta_fast": 16, "truncate": false });
    let llama3 = json!({
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512,
    });
    for (name, settings) in
        [("linear", json!({ "factor": 2.5 })), ("llama3", llama3), ("yarn", yarn), ("default", json!({}))]
    {
        let block = |keys: Value| {
            let mut block = settings.as_object().unwrap().clone();
            block.extend(keys.as_object().unwrap().clone());
            block
        };
        let new =
            read(&rope(json!({ "rope_parameters": block(json!({ "rope_type": name, "rope_theta": 5e5 })) }))).unwrap();
        assert_eq!(new.rope.theta, 5e5, "{name}");
        for spelling in [
            json!({ "rope_theta": 5e5, "rope_scaling": block(json!({ "rope_type": name })) }),
            json!({ "rope_theta": 5e5, "rope_scaling": block(json!({ "type": name })) }),
            json!({ "rope_theta": 500_000, "rope_scaling": block(json!({ "type": name, "rope_type": name })) }),
            json!({ "rope_theta": 5e5, "rope_parameters": block(json!({ "rope_type": name })), "rope_scaling": null }),
            json!({
                "rope_theta": 5e5, "rope_scaling": block(json!({ "rope_type": name })),
                "rope_parameters": block(json!({ "rope_type": name, "rope_theta": 5e5 })),
            }),
        ] {
            assert_eq!(read(&rope(spelling.clone())).unwrap(), new, "{spelling}");
        }
    }
    assert_eq!(read(&rope(json!({ "rope_parameters": null }))).unwrap().rope.theta, 10_000.0);
    assert_eq!(read(&rope(json!({ "rope_parameters": {} }))).unwrap().rope.scaling, RopeScaling::None);
}

#[test]
fn rotary_settings_that_contradict_or_are_not_supported_are_refused() {
    for (keys, parts) in [
        (
            json!({ "rope_scaling": { "rope_type": "dynamic", "factor": 2.0 } }),
            ["rope_scaling.rope_type", "\"dynamic\""],
        ),
        (json!({ "rope_scaling": { "type": "longrope", "factor": 2.0 } }), ["rope_scaling.type", "\"longrope\""]),
        (
            json!({ "rope_parameters": { "full_attention": { "rope_type": "default" } } }),
            ["rope_parameters", "per layer type"],
        ),
        (
            json!({ "rope_theta": 1e4, "rope_parameters": { "rope_theta": 2e4 } }),
            ["rope_parameters.rope_theta", "contradicts"],
        ),
        (json!({ "rope_scaling": { "type": "yarn", "rope_type": "linear" } }), ["rope_scaling.type", "contradicts"]),
        (json!({ "rope_scaling": { "factor": 2.0 } }), ["rope_scaling.rope_type = absent", "needs a type"]),
        (json!({ "rope_scaling": { "type": "linear" } }), ["rope_scaling.factor = absent", "at least 1"]),
        (json!({ "rope_scaling": { "type": "linear", "factor": 0.5 } }), ["rope_scaling.factor = 0.5", "at least 1"]),
        (json!({ "rope_scaling": { "type": "linear", "factor": "2" } }), ["rope_scaling.factor = \"2\"", "at least 1"]),
        (
            json!({ "rope_scaling": { "type": "linear", "factor": 2.0, "beta_fast": 8 } }),
            ["rope_scaling.beta_fast", "no such setting"],
        ),
        (json!({ "rope_scaling": { "type": "yarn" } }), ["rope_scaling.factor = absent", "at least 1"]),
        (
            json!({ "rope_scaling": { "type": "yarn", "factor": 2.0, "beta_slow": 40 } }),
            ["rope_scaling.beta_slow", "beta_fast = 32"],
        ),
        (
            json!({ "rope_scaling": { "type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0 } }),
            ["rope_scaling.high_freq_factor", "above low_freq_factor = 4"],
        ),
        (
            json!({ "rope_parameters": { "partial_rotary_factor": 0.5 } }),
            ["rope_parameters.partial_rotary_factor = 0.5", "expected 1"],
        ),
        (
            json!({ "original_max_position_embeddings": 9, "rope_scaling": { "type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8 } }),
            ["rope_scaling.original_max_position_embeddings = 8", "= 9"],
        ),
    ] {
        let message = refusal(&rope(keys));
        assert!(parts.iter().all(|part| message.contains(part)), "{message}: {parts:?}");
    }
}

#[test]
fn yarn_resolves_its_factors_as_transformers_does() {
    let yarn = |keys: Value| {
        let mut block = json!({ "rope_type": "yarn", "factor": 4.0 }).as_object().unwrap().clone();
        block.extend(keys.as_object().unwrap().clone());
        match read(&rope(json!({ "rope_scaling": block }))).unwrap().rope.scaling {
            RopeScaling::Yarn { factor, attention_factor, original_context, beta_fast, beta_slow, truncate } => {
                (factor, attention_factor, original_context, beta_fast, beta_slow, truncate)
            }
            other => panic!("{other:?}"),
        }
    };
    let plain = 0.1 * 4f64.ln() + 1.0;
    assert_eq!(yarn(json!({})), (4.0, plain, 4096, 32.0, 1.0, true));
    assert_eq!(yarn(json!({ "attention_factor": 0.75 })).1, 0.75);
    assert_eq!(yarn(json!({ "mscale": 1.0, "mscale_all_dim": 0.5 })).1, plain / (0.05 * 4f64.ln() + 1.0));
    assert_eq!(yarn(json!({ "mscale": 1.0, "mscale_all_dim": 1.0 })).1, 1.0);
    assert_eq!(yarn(json!({ "mscale": 1.0, "mscale_all_dim": 0.0 })).1, plain);
    assert_eq!(yarn(json!({ "mscale": 0.5 })).1, plain);
    assert_eq!(yarn(json!({ "factor": 1.0 })).1, 1.0);
    assert_eq!(yarn(json!({ "factor": null, "original_max_position_embeddings": 512 })).0, 8.0);
    assert_eq!(yarn(json!({ "beta_fast": null, "beta_slow": 2, "truncate": false })).3, 32.0);
}

#[test]
fn sliding_windows_are_per_layer() {
    let windows = |family, keys| read(&with(family, keys)).unwrap().windows;
    let (all, none) = (vec![Some(11); 3], vec![None; 3]);
    assert_eq!(windows("mistral", json!({})), all);
    assert_eq!(windows("mistral", json!({ "sliding_window": 0 })), none);
    assert_eq!(windows("llama", json!({ "sliding_window": 0 })), none);
    assert_eq!(windows("mistral", json!({ "layer_types": vec!["sliding_attention"; 3] })), all);
    for family in ["qwen2", "qwen3"] {
        assert_eq!(windows(family, json!({})), [None, Some(11), Some(11)]);
        assert_eq!(windows(family, json!({ "max_window_layers": 0 })), all);
        assert_eq!(windows(family, json!({ "sliding_window": 0 })), none);
        assert_eq!(windows(family, json!({ "use_sliding_window": false })), none);
        let types = json!({ "layer_types": ["sliding_attention", "full_attention", "sliding_attention"] });
        assert_eq!(windows(family, types), [Some(11), None, Some(11)]);
    }
}

#[test]
fn the_generation_config_decides_about_the_ends_of_text_where_it_names_any() {
    let eos = |model: Value, generation: Option<Value>| {
        let mut config = full("qwen2");
        config.remove("eos_token_id");
        config.extend(model.as_object().unwrap().clone());
        let generation = generation.map(|generation| generation.to_string());
        Config::from_json(&Value::Object(config).to_string(), generation.as_deref(), "config.json").unwrap().eos
    };
    assert_eq!(eos(json!({}), Some(json!({ "eos_token_id": [9, 8] }))), [9, 8]);
    assert_eq!(eos(json!({}), Some(json!({ "eos_token_id": [8, 9, 8] }))), [8, 9]);
    assert_eq!(eos(json!({ "eos_token_id": 7 }), Some(json!({ "eos_token_id": 9 }))), [9]);
    assert_eq!(eos(json!({ "eos_token_id": [7, 3] }), Some(json!({ "temperature": 0.6 }))), [7, 3]);
    assert_eq!(eos(json!({ "eos_token_id": 7 }), Some(json!({ "eos_token_id": null }))), [7]);
    assert_eq!(eos(json!({ "eos_token_id": 7 }), None), [7]);
    assert!(eos(json!({}), None).is_empty());

    let config = Value::Object(full("llama")).to_string();
    let error = Config::from_json(&config, Some(r#"{"eos_token_id": 999}"#), "m/config.json").unwrap_err();
    assert!(error.to_string().starts_with("m/generation_config.json: eos_token_id = 999: "), "{error}");
}

#[test]
fn the_type_of_the_weights_has_two_spellings() {
    let mut config = full("llama");
    config.remove("torch_dtype");
    for (key, value, dtype) in [
        ("dtype", "float16", candle_core::DType::F16),
        ("torch_dtype", "torch.float32", candle_core::DType::F32),
        ("dtype", "float64", candle_core::DType::F64),
    ] {
        let mut config = config.clone();
        config.insert(key.to_owned(), value.into());
        assert_eq!(read(&config).unwrap().dtype, Some(dtype), "{key} = {value}");
    }
}
