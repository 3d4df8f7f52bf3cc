//! Weights that are made or kept here: from a seed, in memory, saved.

use crate::support::{DTYPES, Draw, assert_same, assert_says, narrowed, ranges, spec};
use candle_core::{DType, Device, Tensor};
use decoder::weights::folder::Folder;
use decoder::weights::memory::Memory;
use decoder::weights::random::Random;
use decoder::weights::save::{save_folder, save_safetensors};
use decoder::weights::{Part, Role, Weights};
use std::sync::Arc;
use tempfile::tempdir;

#[test]
fn a_random_part_equals_that_part_of_the_random_whole() {
    let mut draw = Draw::fresh();
    let random = Random::new(draw.next());
    for _ in 0..20 {
        let shape = [1 + draw.below(30), 1 + draw.below(30)];
        let spec = spec("model.layers.0.mlp.up_proj.weight", &shape, Role::Up);
        let single = random.read(&spec, &Part::Whole, DType::F32, &Device::Cpu).unwrap();
        for dtype in DTYPES {
            let whole = random.read(&spec, &Part::Whole, dtype, &Device::Cpu).unwrap();
            assert_same(&whole, &single.to_dtype(dtype).unwrap(), "all types start from the same model");
            let dim = draw.below(2);
            let cut = draw.ranges(shape[dim]);
            let part = random.read(&spec, &ranges(dim, &cut), dtype, &Device::Cpu).unwrap();
            assert_same(&part, &narrowed(&whole, dim, &cut), &format!("{cut:?} along {dim}, seed {}", draw.seed));
        }
    }
}

#[test]
fn random_matrices_are_normal_and_differ_by_name_and_seed() {
    let seed = Draw::fresh().next();
    let read = |seed: u64, name: &str| {
        let spec = spec(name, &[500, 400], Role::Gate);
        let tensor = Random { seed, std: 0.5 }.read(&spec, &Part::Whole, DType::F64, &Device::Cpu).unwrap();
        tensor.flatten_all().unwrap().to_vec1::<f64>().unwrap()
    };
    let values = read(seed, "a");
    let count = values.len() as f64;
    let moment = |power: i32| values.iter().map(|value| (value / 0.5).powi(power)).sum::<f64>() / count;
    // Standard errors at 200,000 draws: 0.0022, 0.0032, 0.0087, 0.022.
    for (power, expected, tolerance) in [(1, 0.0, 0.015), (2, 1.0, 0.02), (3, 0.0, 0.05), (4, 3.0, 0.14)] {
        let found = moment(power);
        assert!((found - expected).abs() < tolerance, "moment {power} is {found}, not {expected}, seed {seed}");
    }
    let correlation = |other: &[f64]| values.iter().zip(other).map(|(a, b)| a * b * 4.0).sum::<f64>() / count;
    assert!((correlation(&values) - 1.0).abs() < 0.02);
    for (what, other) in [("name", read(seed, "b")), ("seed", read(seed + 1, "a")), ("shift", values[1..].to_vec())] {
        let found = correlation(&other);
        assert!(found.abs() < 0.015, "correlation {found} with another {what}, seed {seed}");
    }
}

#[test]
fn random_norms_are_ones_and_biases_zeros() {
    for (role, expected) in
        [(Role::AttentionNorm, 1f32), (Role::QueryNorm, 1.0), (Role::KeyBias, 0.0), (Role::DownBias, 0.0)]
    {
        let spec = spec("w", &[7], role);
        let found = Random::new(3).read(&spec, &ranges(0, &[2..5]), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(found.to_vec1::<f32>().unwrap(), [expected; 3], "{role:?}");
    }
    let absurd = spec("w", &[usize::MAX, 2], Role::Up);
    assert_says(Random::new(3).check(std::slice::from_ref(&absurd)), &["w", "64 bits"]);
    let large = spec("w", &[1 << 31, 1 << 31], Role::Up);
    assert_says(Random::new(3).read(&large, &Part::Whole, DType::F32, &Device::Cpu), &["more than this machine"]);
}

#[test]
fn memory_gives_copies_of_its_parts_and_checks_like_a_file() {
    let mut draw = Draw::fresh();
    let tensor = draw.tensor(&[6, 8], DType::F64);
    let ids = Tensor::zeros(3, DType::U32, &Device::Cpu).unwrap();
    let memory = Arc::new(Memory::new([("w".into(), tensor.clone()), ("ids".into(), ids)]));
    let asked = spec("w", &[6, 8], Role::Query);
    for dtype in DTYPES {
        for dim in [0, 1] {
            let cut = draw.ranges(tensor.dims()[dim]);
            let part = memory.read(&asked, &ranges(dim, &cut), dtype, &Device::Cpu).unwrap();
            let expected = narrowed(&tensor, dim, &cut).to_dtype(dtype).unwrap();
            assert_same(&part, &expected, &format!("{cut:?} along {dim}, seed {}", draw.seed));
        }
    }
    let whole = memory.read(&asked, &Part::Whole, DType::F64, &Device::Cpu).unwrap();
    let rows = memory.read(&asked, &ranges(0, &[0..6]), DType::F64, &Device::Cpu).unwrap();
    let untouched = tensor.force_contiguous().unwrap();
    tensor.slice_set(&draw.tensor(&[6, 8], DType::F64), 0, 0).unwrap();
    assert_same(&whole, &untouched, "the whole is a copy");
    assert_same(&rows, &untouched, "a part is a copy");
    assert_says(memory.check(&[spec("v", &[1], Role::Query)]), &["v", "only ids, w"]);
    assert_says(memory.check(&[spec("ids", &[3], Role::Query)]), &["ids", "u32"]);
    assert_says(memory.read(&asked, &ranges(0, &[5..7]), DType::F32, &Device::Cpu), &["5..7", "0..6"]);
}

#[test]
fn a_saved_folder_reads_back_the_same_here_and_with_candle() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    let path = folder.path().join("new/model");
    let mut tensors: Vec<(String, Tensor)> = DTYPES
        .iter()
        .map(|&dtype| (format!("{dtype:?}"), draw.tensor(&[300, 301], dtype)))
        .chain([("empty".into(), Tensor::zeros((0, 3), DType::F32, &Device::Cpu).unwrap())])
        .collect();
    // A view is saved as what it shows.
    tensors.push(("view".into(), tensors[1].1.t().unwrap().narrow(0, 3, 5).unwrap()));
    save_folder(&path, "{\"a\": 1}", tensors.clone()).unwrap();
    assert_eq!(std::fs::read_to_string(path.join("config.json")).unwrap(), "{\"a\": 1}");
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2, "no partial file remains");

    let ours = Folder::open(&path).unwrap();
    let theirs = candle_core::safetensors::load(path.join("model.safetensors"), &Device::Cpu).unwrap();
    for (name, tensor) in &tensors {
        let spec = spec(name, tensor.dims(), Role::Query);
        let read = ours.read(&spec, &Part::Whole, tensor.dtype(), &Device::Cpu).unwrap();
        assert_same(&read, tensor, &format!("{name}, seed {}", draw.seed));
        assert_same(&theirs[name], tensor, &format!("{name}, seed {}", draw.seed));
    }
    let bytes = std::fs::read(path.join("model.safetensors")).unwrap();
    let header = String::from_utf8_lossy(&bytes[8..600]).into_owned();
    assert!(header.contains(r#""format":"pt""#), "{header}");

    // What cannot be written leaves the old file as it was.
    let file = path.join("model.safetensors");
    let twice = [tensors[0].clone(), tensors[0].clone()];
    assert_says(save_safetensors(&file, twice), &["two tensors are named F64"]);
    let ids = ("ids".to_owned(), Tensor::zeros(3, DType::U32, &Device::Cpu).unwrap());
    assert_says(save_safetensors(&file, [ids]), &["u32"]);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2, "no partial file remains");
}

#[cfg(unix)]
#[test]
fn a_file_behind_a_link_is_written_and_what_is_no_file_is_refused() {
    let root = tempdir().unwrap();
    let (target, link) = (root.path().join("target.safetensors"), root.path().join("link"));
    std::fs::write(&target, "before").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let tensors = || [("a".to_owned(), Tensor::ones(3, DType::F32, &Device::Cpu).unwrap())];
    save_safetensors(&link, tensors()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink(), "the link is still one");
    assert_eq!(candle_core::safetensors::load(&target, &Device::Cpu).unwrap()["a"].elem_count(), 3);
    assert_says(save_safetensors(std::path::Path::new("/dev/full"), tensors()), &["/dev/full", "not a file"]);
    assert_says(save_safetensors(root.path(), tensors()), &["not a file"]);
}
