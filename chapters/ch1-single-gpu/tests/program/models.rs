//! Models to run on: the fixtures, a small one with a tokenizer, and folders to be spoilt.

use candle_core::{DType, Device};
use decoder::Config;
use decoder::weights::random::Random;
use decoder::weights::save::save_folder;
use decoder::weights::{Part, Weights};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    workspace().join("tests/fixtures/tiny").join(name)
}

/// A copy of the fixture `llama-gqa` that may be changed.
pub(crate) fn copy() -> TempDir {
    copy_of("llama-gqa")
}

pub(crate) fn copy_of(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        let file = entry.file_name();
        if file.to_str().unwrap().starts_with("model") || file == "config.json" {
            std::fs::copy(entry.path(), folder.path().join(file)).unwrap();
        }
    }
    folder
}

/// Sets keys of the `config.json` in `folder`; null removes one.
pub(crate) fn set(folder: &Path, keys: &Value) {
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let config_keys = config.as_object_mut().unwrap();
    for (key, value) in keys.as_object().unwrap() {
        config_keys.remove(key);
        if !value.is_null() {
            config_keys.insert(key.clone(), value.clone());
        }
    }
    std::fs::write(path, config.to_string()).unwrap();
}

/// A small model with random weights that can read and write text: vocabulary and tokenizer of the bundled one, two layers.
pub(crate) fn with_text() -> TempDir {
    let bundled = workspace().join("assets/stories-1.9m");
    let text = std::fs::read_to_string(bundled.join("config.json")).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    json["num_hidden_layers"] = 2.into();
    json["hidden_size"] = 32.into();
    let json = json.to_string();
    let config = Config::from_json(&json, None, "config.json").unwrap();
    let read = |spec: &decoder::weights::WeightSpec| {
        let tensor = Random { seed: 7, std: 0.3 }.read(spec, &Part::Whole, DType::F32, &Device::Cpu).unwrap();
        (spec.name.to_string(), tensor)
    };
    let folder = tempfile::tempdir().unwrap();
    save_folder(folder.path(), &json, config.weights().iter().map(read)).unwrap();
    std::fs::copy(bundled.join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    folder
}
