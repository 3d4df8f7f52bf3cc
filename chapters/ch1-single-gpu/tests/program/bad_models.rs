//! Models that cannot be used end with exit code 1 and say what was found and what to do.

use crate::models::{copy, copy_of, set, with_text};
use crate::run;
use serde_json::json;
use std::fs;
use std::path::Path;

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[track_caller]
fn refused(folder: &Path, words: &[&str]) {
    run("score", folder, &["--ids", "[[1,2,3]]"]).fails(1, words);
}

#[test]
fn weights_that_are_no_weights_are_refused() {
    let folder = copy();
    let file = folder.path().join(WEIGHTS);
    let whole = fs::read(&file).unwrap();

    fs::write(&file, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 825600\n").unwrap();
    refused(folder.path(), &[WEIGHTS, "Git LFS pointer"]);
    fs::write(&file, "<!DOCTYPE html><html><body>Sign in</body></html>").unwrap();
    refused(folder.path(), &[WEIGHTS, "web page"]);
    fs::write(&file, &whole[..whole.len() - 100]).unwrap();
    refused(folder.path(), &[WEIGHTS, "bytes"]);
    fs::write(&file, b"").unwrap();
    refused(folder.path(), &[WEIGHTS]);
    fs::remove_file(&file).unwrap();
    refused(folder.path(), &["neither model.safetensors nor"]);
    fs::write(folder.path().join("pytorch_model.bin"), b"PK").unwrap();
    refused(folder.path(), &["pytorch_model.bin", "convert"]);
}

#[test]
fn names_under_a_foreign_prefix_are_refused_with_three_that_are_there() {
    let folder = copy();
    let file = folder.path().join(WEIGHTS);
    let tensors = candle_core::safetensors::load(&file, &candle_core::Device::Cpu).unwrap();
    let foreign = tensors.into_iter().map(|(name, tensor)| (format!("transformer.{name}"), tensor));
    decoder::weights::save::save_safetensors(&file, foreign).unwrap();
    refused(folder.path(), &["model.embed_tokens.weight", "transformer.model."]);
    let run = run("score", folder.path(), &["--ids", "[[1,2,3]]"]);
    assert!(run.stderr.matches("transformer.").count() >= 3, "{run}");
}

#[test]
fn indices_that_lead_astray_are_refused() {
    let folder = copy_of("llama-sharded");
    let shard = "model-00003-of-00005.safetensors";
    fs::remove_file(folder.path().join(shard)).unwrap();
    refused(folder.path(), &[shard, "missing"]);

    let folder = copy_of("llama-sharded");
    let path = folder.path().join(INDEX);
    let mut index: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let name = "model.layers.0.self_attn.q_proj.weight";
    let wrong = "model-00005-of-00005.safetensors";
    assert_ne!(index["weight_map"][name], wrong);
    index["weight_map"][name] = wrong.into();
    fs::write(&path, index.to_string()).unwrap();
    refused(folder.path(), &[name, wrong]);
    fs::write(&path, "{").unwrap();
    refused(folder.path(), &[INDEX, "download"]);
}

#[test]
fn heads_that_contradict_the_config_are_refused() {
    let folder = copy_of("llama-tied-odd");
    set(folder.path(), &json!({"tie_word_embeddings": false}));
    refused(folder.path(), &["lm_head.weight"]);
}

#[test]
fn configs_that_make_no_model_are_refused_by_key_and_value() {
    for (keys, words) in [
        (json!({"num_attention_heads": 0}), &["num_attention_heads", "0"][..]),
        (json!({"num_attention_heads": 3, "hidden_size": 16, "head_dim": null}), &["num_attention_heads", "3"]),
        (json!({"num_key_value_heads": 3}), &["num_key_value_heads", "3"]),
        (json!({"hidden_size": null}), &["hidden_size", "absent"]),
        (json!({"hidden_size": "wide"}), &["hidden_size", "wide"]),
        (json!({"hidden_size": -1}), &["hidden_size", "-1"]),
        (json!({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}), &["MambaForCausalLM", "supported"]),
        (json!({"model_type": null, "architectures": null}), &["architectures", "absent"]),
        (json!({"quantization_config": {"quant_method": "awq"}}), &["quantization_config", "awq"]),
        (json!({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}), &["rope", "dynamic"]),
        (json!({"hidden_act": "swoosh"}), &["hidden_act", "swoosh"]),
    ] {
        let folder = copy();
        set(folder.path(), &keys);
        refused(folder.path(), words);
        refused(folder.path(), &["config.json"]);
    }
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_allocated() {
    for (key, size) in [
        ("vocab_size", 4_000_000_000),
        ("hidden_size", 1 << 40),
        ("num_hidden_layers", 1 << 60),
        ("intermediate_size", u64::MAX),
        ("max_position_embeddings", u64::MAX),
    ] {
        let folder = copy();
        set(folder.path(), &json!({ (key): size }));
        refused(folder.path(), &[key, &size.to_string()]);
    }
}

#[test]
fn files_that_are_no_config_are_refused() {
    let folder = copy();
    for text in ["", "{", "[]", "<html>", "\u{0}\u{1}"] {
        fs::write(folder.path().join("config.json"), text).unwrap();
        refused(folder.path(), &["JSON"]);
    }
    fs::remove_file(folder.path().join("config.json")).unwrap();
    refused(folder.path(), &["config.json"]);
    refused(Path::new("no/such/folder/at-all"), &["no such file or folder"]);
    refused(Path::new("no-such-bundled-model"), &["bundled"]);
    fs::write(folder.path().join("model.gguf"), "GGUF, or not").unwrap();
    refused(&folder.path().join("model.gguf"), &["model.gguf"]);
}

#[test]
fn a_hub_id_while_offline_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut command = crate::program();
    command.env("HF_HOME", home.path()).env_remove("HF_HUB_CACHE");
    command.args(["score", "--model", "nobody/nothing", "--ids", "[[1,2]]"]);
    crate::Run::of("score --model nobody/nothing".into(), &command.output().unwrap())
        .fails(1, &["nobody/nothing", "HF_HUB_OFFLINE"]);
}

#[test]
fn tokenizers_that_do_not_fit_are_refused() {
    let folder = with_text();
    let path = folder.path().join("tokenizer.json");
    let right = fs::read_to_string(&path).unwrap();
    let asked = |words: &[&str]| run("generate", folder.path(), &["--prompt", "the dog"]).fails(1, words);

    let mut json: serde_json::Value = serde_json::from_str(&right).unwrap();
    json["model"]["type"] = "Telepathy".into();
    fs::write(&path, json.to_string()).unwrap();
    asked(&["tokenizer", "Telepathy"]);
    fs::write(&path, "{}").unwrap();
    asked(&["tokenizer"]);

    // Of another model: ids that this one has no row for.
    fs::write(&path, &right).unwrap();
    let other = copy();
    fs::write(other.path().join("tokenizer.json"), right).unwrap();
    run("generate", other.path(), &["--prompt", "the dog"]).fails(1, &["256 tokens", "another model"]);
}

#[test]
fn a_prompt_beyond_the_context_is_refused_before_the_weights_are_read() {
    let folder = with_text();
    fs::remove_file(folder.path().join(WEIGHTS)).unwrap();
    run("generate", folder.path(), &["--prompt", "the dog", "-n", "511"]).fails(1, &["context is full", "512 fit"]);
}

#[test]
fn gradients_that_cannot_be_written_are_an_error() {
    let folder = copy();
    let file = folder.path().join("config.json/gradients.safetensors");
    run("gradients", folder.path(), &["--ids", "[[1,2]]", "--save", file.to_str().unwrap()]).fails(1, &["config.json"]);
}
