//! Folders of safetensors files: which files count, and parts.

use crate::support::{DTYPES, Draw, assert_same, assert_says, narrowed, ranges, spec};
use candle_core::{DType, Device, Tensor};
use decoder::weights::folder::Folder;
use decoder::weights::{Part, Role, Weights};
use std::collections::HashMap;
use std::path::Path;
use tempfile::tempdir;

const INDEX: &str = "model.safetensors.index.json";

/// Writes tensors with candle's writer, not with ours.
fn write(folder: &Path, file: &str, tensors: &[(&str, &Tensor)]) {
    let tensors: HashMap<&str, Tensor> = tensors.iter().map(|(name, tensor)| (*name, (*tensor).clone())).collect();
    candle_core::safetensors::save(&tensors, folder.join(file)).unwrap();
}

fn write_index(folder: &Path, map: &[(&str, &str)]) {
    let map: HashMap<&str, &str> = map.iter().copied().collect();
    let text = serde_json::json!({ "metadata": { "total_size": 0 }, "weight_map": map }).to_string();
    std::fs::write(folder.join(INDEX), text).unwrap();
}

#[test]
fn a_part_is_what_narrow_and_cat_make_of_the_whole_for_all_types() {
    let mut draw = Draw::fresh();
    for stored in DTYPES {
        let folder = tempdir().unwrap();
        let shapes =
            [vec![1 + draw.below(40), 1 + draw.below(40)], vec![1 + draw.below(100)], vec![3, 1 + draw.below(9), 5]];
        let tensors: Vec<Tensor> = shapes.iter().map(|shape| draw.tensor(shape, stored)).collect();
        let names = ["matrix", "vector", "cube"];
        let pairs: Vec<(&str, &Tensor)> = names.iter().copied().zip(&tensors).collect();
        write(folder.path(), "model.safetensors", &pairs);
        let weights = Folder::open(folder.path()).unwrap();
        for asked in DTYPES {
            for (name, tensor) in &pairs {
                let expected = tensor.to_dtype(asked).unwrap();
                let spec = spec(name, tensor.dims(), Role::Query);
                let whole = weights.read(&spec, &Part::Whole, asked, &Device::Cpu).unwrap();
                assert_same(&whole, &expected, &format!("{name}, {stored:?} as {asked:?}, seed {}", draw.seed));
                for dim in 0..tensor.rank() {
                    let cut = draw.ranges(tensor.dims()[dim]);
                    let part = weights.read(&spec, &ranges(dim, &cut), asked, &Device::Cpu).unwrap();
                    let what = format!("{name}, {cut:?} along {dim}, {stored:?} as {asked:?}, seed {}", draw.seed);
                    assert_same(&part, &narrowed(&expected, dim, &cut), &what);
                }
            }
        }
    }
}

#[test]
fn a_large_weight_is_read_right_across_the_limits_of_one_read() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    // More rows, wider rows and longer gaps than one read takes.
    for (name, shape) in [("tall", [300_000, 3]), ("wide", [3, 300_000]), ("square", [700, 3_000])] {
        let tensor = draw.tensor(&shape, DType::F32);
        write(folder.path(), "model.safetensors", &[(name, &tensor)]);
        let weights = Folder::open(folder.path()).unwrap();
        let spec = spec(name, &shape, Role::Query);
        for dim in [0, 1] {
            let cut = draw.ranges(shape[dim]);
            let part = weights.read(&spec, &ranges(dim, &cut), DType::F32, &Device::Cpu).unwrap();
            assert_same(
                &part,
                &narrowed(&tensor, dim, &cut),
                &format!("{name}, {cut:?} along {dim}, seed {}", draw.seed),
            );
        }
    }
}

#[test]
fn only_the_bytes_of_the_part_are_read() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    let tensor = draw.tensor(&[64, 8_192], DType::BF16);
    write(folder.path(), "model.safetensors", &[("w", &tensor)]);
    let weights = Folder::open(folder.path()).unwrap();
    assert_eq!(weights.bytes_read(), 0, "opening reads no weight");
    let spec = spec("w", &[64, 8_192], Role::Query);

    let read = |part: &Part, dtype| {
        let before = weights.bytes_read();
        drop(weights.read(&spec, part, dtype, &Device::Cpu).unwrap());
        weights.bytes_read() - before
    };
    let rows = draw.below(40)..40 + draw.below(24);
    let expected = rows.len() as u64 * 8_192 * 2;
    assert_eq!(
        read(&ranges(0, std::slice::from_ref(&rows)), DType::F32),
        expected,
        "rows {rows:?}, seed {}",
        draw.seed
    );
    assert_eq!(read(&ranges(0, &[3..3, 9..9]), DType::F32), 0, "empty ranges");
    // Half of the columns: the gap between two rows' runs is 8 KiB, skipping it is cheaper than reading it.
    assert_eq!(read(&ranges(1, &[0..4_096]), DType::F64), 64 * 4_096 * 2, "columns far apart");
    // All but a few columns: reading the gap is cheaper, and never more than the whole is read.
    let (needed, whole) = (64 * 8_000 * 2, 64 * 8_192 * 2);
    let bytes = read(&ranges(1, &[0..8_000]), DType::F32);
    assert!((needed..=whole).contains(&bytes), "{bytes} bytes for {needed} of {whole}");
}

#[test]
fn a_part_out_of_range_is_an_error() {
    let folder = tempdir().unwrap();
    write(folder.path(), "model.safetensors", &[("w", &Draw::fresh().tensor(&[4, 6], DType::F32))]);
    let weights = Folder::open(folder.path()).unwrap();
    let read = |part: Part| weights.read(&spec("w", &[4, 6], Role::Query), &part, DType::F32, &Device::Cpu);
    assert_says(read(ranges(0, &[0..2, 3..5])), &["w", "3..5", "0..4"]);
    assert_says(read(ranges(1, &[7..7])), &["7..7", "0..6"]);
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = ranges(1, &[4..2]);
    assert_says(read(backwards), &["4..2", "0..6"]);
    assert_says(read(ranges(2, &[0..1])), &["dimension 2", "[4, 6]"]);
    assert_says(
        weights.read(&spec("w", &[4, 6], Role::Query), &Part::Whole, DType::U32, &Device::Cpu),
        &["u32", "f64, f32, f16 or bf16"],
    );
}

#[test]
fn names_shapes_and_types_are_checked_before_anything_is_read() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    let float = draw.tensor(&[2, 2], DType::F32);
    let integer = Tensor::zeros((2, 2), DType::I64, &Device::Cpu).unwrap();
    let names = ["transformer.a", "transformer.b", "transformer.c", "transformer.d"];
    let mut pairs: Vec<(&str, &Tensor)> = names.iter().map(|name| (*name, &float)).collect();
    pairs.push(("ids", &integer));
    write(folder.path(), "model.safetensors", &pairs);
    let weights = Folder::open(folder.path()).unwrap();

    let good: Vec<_> = names.iter().map(|name| spec(name, &[2, 2], Role::Query)).collect();
    weights.check(&good).unwrap();
    let foreign: Vec<_> = ["model.a", "model.b", "transformer.c"].map(|name| spec(name, &[2, 2], Role::Query)).into();
    assert_says(weights.check(&foreign), &["model.a", "2 of 3 are missing", "transformer.a, transformer.b", "among 5"]);
    assert_says(weights.check(&[spec("transformer.a", &[2, 3], Role::Query)]), &["transformer.a", "[2, 2]", "[2, 3]"]);
    assert_says(weights.check(&[spec("ids", &[2, 2], Role::Query)]), &["ids", "I64", "convert"]);
    assert_eq!(weights.bytes_read(), 0);

    // A head that the config does not ask for is no error; whoever cares can ask.
    assert!(weights.contains("transformer.d") && !weights.contains("lm_head.weight"));
    assert_eq!(weights.names().count(), 5);
    assert_eq!(weights.shape("transformer.d"), Some([2, 2].as_slice()));
}

#[test]
fn shards_are_found_by_their_index_or_by_their_numbers() {
    let mut draw = Draw::fresh();
    let (a, b, stale) = (draw.tensor(&[3], DType::F32), draw.tensor(&[3], DType::F32), draw.tensor(&[3], DType::F32));
    let (first, second) = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
    let folder = tempdir().unwrap();
    let path = folder.path();
    let read = |name: &str| {
        Folder::open(path)?.read(&spec(name, &[3], Role::FinalNorm), &Part::Whole, DType::F32, &Device::Cpu)
    };

    write(path, first, &[("a", &a)]);
    assert_says(Folder::open(path), &[second, "missing"]);
    write(path, second, &[("b", &b)]);
    assert_same(&read("b").unwrap(), &b, "numbered shards without an index");
    write(path, second, &[("b", &b), ("a", &stale)]);
    assert_says(Folder::open(path), &["weight a", first, second]);

    write_index(path, &[("a", first), ("b", second)]);
    assert_same(&read("a").unwrap(), &a, "the index decides between two");
    write_index(path, &[("a", second), ("b", first)]);
    assert_says(Folder::open(path), &["weight b", &format!("in {second}"), &format!("in {first} by {INDEX}")]);
    write_index(path, &[("a", first), ("b", second), ("c", second)]);
    assert_says(Folder::open(path), &["weight c", "in none of the files"]);
    write_index(path, &[("a", first), ("b", second), ("c", "model-3.safetensors"), ("d", "model-3.safetensors")]);
    assert_says(Folder::open(path), &["model-3.safetensors", "missing", "2 of 4"]);
    write_index(path, &[("a", "../elsewhere.safetensors")]);
    assert_says(Folder::open(path), &["../elsewhere.safetensors", "same folder"]);
    std::fs::write(path.join(INDEX), "<html>").unwrap();
    assert_says(Folder::open(path), &[INDEX, "not an index"]);
}

#[test]
fn one_file_wins_over_an_index_that_does_not_name_it() {
    let mut draw = Draw::fresh();
    let (single, other) = (draw.tensor(&[3], DType::F32), draw.tensor(&[3], DType::F32));
    let folder = tempdir().unwrap();
    let path = folder.path();
    let read = || Folder::open(path)?.read(&spec("a", &[3], Role::FinalNorm), &Part::Whole, DType::F32, &Device::Cpu);

    write(path, "model.safetensors", &[("a", &single)]);
    assert_same(&read().unwrap(), &single, "file but no index");
    write_index(path, &[("a", "model.safetensors")]);
    assert_same(&read().unwrap(), &single, "index but single file");
    write_index(path, &[("a", "model-00001-of-00001.safetensors")]);
    assert_same(&read().unwrap(), &single, "an index of shards that are gone");
    write(path, "model-00001-of-00001.safetensors", &[("a", &other)]);
    assert_same(&read().unwrap(), &single, "both");
    write_index(path, &[("a", "model.safetensors"), ("b", "model-00009-of-00009.safetensors")]);
    assert_says(read(), &["model-00009-of-00009.safetensors", "missing"]);
}

#[test]
fn a_folder_without_weights_says_what_it_has() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    assert_says(Folder::open(path), &["neither model.safetensors nor", "empty"]);
    std::fs::write(path.join("config.json"), "{}").unwrap();
    assert_says(Folder::open(path), &["neither model.safetensors nor", "config.json"]);
    std::fs::write(path.join("pytorch_model.bin"), "").unwrap();
    assert_says(Folder::open(path), &["pytorch_model.bin", "convert"]);
    std::fs::write(path.join("tiny.gguf"), "").unwrap();
    assert_says(Folder::open(path), &["tiny.gguf", "pass that file"]);
    std::fs::write(path.join("consolidated.safetensors"), "").unwrap();
    assert_says(Folder::open(path), &["consolidated.safetensors", "rename"]);
    assert_says(Folder::open(&path.join("nowhere")), &["nowhere", "No such file"]);
}
