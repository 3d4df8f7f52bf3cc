//! What a user may call a model.

use crate::support::{Draw, assert_says};
use candle_core::DType;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use decoder::source::Source;
use std::fs::File;
use std::path::Path;
use tempfile::tempdir;

fn write_gguf(path: &Path) {
    let tensor = QTensor::quantize(&Draw::fresh().tensor(&[4], DType::F32), GgmlDType::F32).unwrap();
    let name = Value::String("llama".into());
    let metadata = [("general.architecture", &name)];
    gguf_file::write(&mut File::create(path).unwrap(), &metadata, &[("rope_freqs.weight", &tensor)]).unwrap();
}

#[test]
fn folders_gguf_files_and_bundled_names_are_found() {
    let root = tempdir().unwrap();
    let bundled = root.path().join("bundled");
    for name in ["tiny", "packed"] {
        std::fs::create_dir_all(bundled.join(name)).unwrap();
    }
    std::fs::write(bundled.join("tiny/config.json"), "{\"tiny\": true}").unwrap();
    write_gguf(&bundled.join("packed/model.gguf"));
    let resolve = |model: &Path| Source::resolve(model.to_str().unwrap(), None, &bundled);

    for model in [bundled.join("tiny"), "tiny".into()] {
        let source = resolve(&model).unwrap();
        assert_says(source.config(), &["config.json", "architectures"]);
        assert_says(source.tokenizer(), &["tokenizer.json"]);
        assert_says(source.weights(), &["neither model.safetensors nor"]);
    }
    std::fs::write(bundled.join("tiny/generation_config.json"), "{}").unwrap();
    let source = resolve("tiny".as_ref()).unwrap();
    assert!(matches!(source, Source::Folder(_)));

    for model in [bundled.join("packed/model.gguf"), bundled.join("packed"), "packed".into()] {
        let source = resolve(&model).unwrap();
        let Source::Gguf(gguf) = &source else { panic!("{source:?}") };
        assert_eq!(gguf.rope_divisors().unwrap().map(|divisors| divisors.len()), Some(4));
        assert_says(source.config(), &["llama.", "absent"]);
        assert!(source.origin().ends_with("model.gguf"), "{}", source.origin());
        assert!(source.weights().unwrap().contains("rope_freqs.weight"));
    }
}

#[test]
fn what_is_not_found_is_explained() {
    let root = tempdir().unwrap();
    let bundled = root.path().join("bundled");
    let resolve = |model: &str, revision| Source::resolve(model, revision, &bundled);
    assert_says(resolve("tiny", None), &["tiny", "there are none", "owner/name"]);
    for name in ["stories", "tiny"] {
        std::fs::create_dir_all(bundled.join(name)).unwrap();
    }
    std::fs::write(bundled.join("stories/config.json"), "{}").unwrap();
    // What has no model in it is none.
    assert_says(resolve("tinny", None), &["tinny", "(stories)", "owner/name"]);
    assert_says(resolve("tiny", None), &["tiny", "no config.json"]);
    for model in
        ["./nowhere", "/nowhere/model", "a/b/c", "nowhere/model.gguf", "model.safetensors", "..", "~/model", ""]
    {
        if !Path::new(model).exists() {
            assert_says(resolve(model, None), &[model, "no such file or folder"]);
        }
    }
    let folder = bundled.join("tiny");
    let folder = folder.to_str().unwrap();
    assert_says(resolve(folder, Some("main")), &["revision = main", "local"]);
    let file = bundled.join("tiny/weights.safetensors");
    std::fs::write(&file, "").unwrap();
    assert_says(resolve(file.to_str().unwrap(), None), &["neither a folder nor a .gguf file"]);
    write_gguf(&bundled.join("tiny/one.gguf"));
    write_gguf(&bundled.join("tiny/two.gguf"));
    assert_says(resolve(folder, None), &["several", "one.gguf, two.gguf"]);
}
