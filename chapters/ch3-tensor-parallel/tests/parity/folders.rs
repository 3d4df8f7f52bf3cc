//! Sharded models and ordinary folders: saved as one, read again under any layout, each rank its own slices only.

use super::models::{Model, all, bundled, cases};
use super::ranks::on_ranks;
use candle_core::{DType, Device, Tensor};
use ch3_tensor_parallel::layout::{Held, Layout};
use decoder::split::Split;
use decoder::weights::Weights;
use decoder::weights::folder::Folder;
use decoder::weights::save::save_folder;
use decoder::{Config, Decoder};
use std::path::Path;
use training::Named;

/// Handles of all parameters.
fn parameters(decoder: &Decoder) -> Named {
    decoder.parameters().into_iter().map(|(one, _)| (one.name().clone(), one.value().clone())).collect()
}

fn resaved(model: &Model, tp: usize, dtype: DType, folder: &Path) -> Model {
    on_ranks(model, tp, None, |_, tensor| tensor.save(&parameters(&model.load(dtype, &tensor.split())), folder));
    super::models::folder(folder)
}

fn bits(model: &Model, dtype: DType) -> Vec<(String, Vec<u64>)> {
    let values = |tensor: &Tensor| -> Vec<u64> {
        let wide = tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap();
        wide.to_vec1::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
    };
    let named = parameters(&model.load(dtype, &Split::whole()));
    named.iter().map(|(name, tensor)| (name.to_string(), values(tensor))).collect()
}

#[test]
fn a_model_saved_from_many_ranks_is_read_by_fewer_and_by_one_with_every_bit() {
    for (model, sizes) in cases() {
        let dtype = if model.name == "llama-bf16" { DType::BF16 } else { DType::F32 };
        let expected = bits(&model, dtype);
        // A saved folder says what its numbers are; a model that was drawn has no folder yet.
        let mut config = model.config.clone();
        config.dtype = Some(dtype);
        let out = tempfile::tempdir().unwrap();
        // From the most ranks down to one, each from the folder that the one before wrote.
        let mut at = resaved(&model, *sizes.last().unwrap(), dtype, &out.path().join("first"));
        for &tp in sizes.iter().rev().skip(1).chain(&[1]) {
            assert_eq!(at.config, config, "{}", model.name);
            at = resaved(&at, tp, dtype, &out.path().join(format!("tp{tp}")));
        }
        assert_eq!(bits(&at, dtype), expected, "{}, {sizes:?}", model.name);
    }
}

/// Elements of all parts on all ranks: what is cut once, what is shared as often as it is held.
#[test]
fn every_rank_reads_the_bytes_of_its_own_slices_and_no_others() {
    let model = bundled();
    let out = tempfile::tempdir().unwrap();
    let tensors = parameters(&model.load(DType::F32, &Split::whole()));
    let tensors = tensors.into_iter().map(|(name, tensor)| (name.to_string(), tensor));
    save_folder(out.path(), &model.config.to_json().unwrap(), tensors).unwrap();
    for tp in [1, 2, 4, 8] {
        let layout = Layout::new(&model.config, tp).unwrap();
        let read = on_ranks(&model, tp, None, |rank, tensor| {
            let folder = Folder::open(out.path())?;
            Decoder::load(&model.config, &folder, DType::F32, &Device::Cpu, &tensor.split())?;
            Ok((rank.rank(), folder.bytes_read()))
        });
        let whole = 4 * model.config.parameters();
        for (rank, bytes) in read {
            let own: usize = layout.weights().map(|weight| 4 * layout.elements(weight, rank)).sum();
            // Runs of a row-parallel weight that lie close together are fetched with what is between them (at most 4 KiB).
            let rows = |weight: &&decoder::weights::WeightSpec| layout.held(weight.role) == Held::Cut { dim: 1 };
            let between: usize = layout.weights().filter(rows).map(|weight| 4 * weight.elements() as usize).sum();
            assert!((own as u64..=(own + between) as u64).contains(&bytes), "tp {tp}, rank {rank}: {bytes} of {own}");
            assert!(bytes <= whole, "tp {tp}, rank {rank}");
        }
    }
}

/// Rows of a row-parallel weight as wide as those of a real model: nothing is read twice, and nothing of others.
#[test]
fn at_the_width_of_a_real_model_a_rank_reads_its_share_to_the_byte() {
    let text = serde_json::json!({
        "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 16_384, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 2_048, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    });
    let config = Config::from_json(&text.to_string(), None, "config.json").unwrap();
    let random = decoder::weights::random::Random::new(7);
    let whole = Decoder::load(&config, &random, DType::F32, &Device::Cpu, &Split::whole()).unwrap();
    let out = tempfile::tempdir().unwrap();
    let tensors = parameters(&whole).into_iter().map(|(name, tensor)| (name.to_string(), tensor));
    save_folder(out.path(), &config.to_json().unwrap(), tensors).unwrap();
    let model = super::models::folder(out.path());
    let (tp, layout) = (4, Layout::new(&config, 4).unwrap());
    let read = on_ranks(&model, tp, None, |_, tensor| {
        let folder = Folder::open(out.path())?;
        Decoder::load(&config, &folder, DType::F32, &Device::Cpu, &tensor.split())?;
        Ok(folder.bytes_read())
    });
    for (rank, bytes) in read.into_iter().enumerate() {
        let own: usize = layout.weights().map(|weight| 4 * layout.elements(weight, rank)).sum();
        assert_eq!(bytes, own as u64, "rank {rank}");
        let share = bytes as f64 / (4 * config.parameters()) as f64;
        assert!((share - 0.25).abs() < 0.001, "rank {rank} reads {share} of the model");
    }
}

#[test]
fn no_two_ranks_hold_the_same_slice_unless_they_share_a_key_head() {
    for (model, sizes) in cases() {
        for tp in sizes {
            let layout = Layout::new(&model.config, tp).unwrap();
            for weight in layout.weights() {
                let parts: Vec<_> =
                    (0..tp).map(|rank| ch3_tensor_parallel::layout::part_of_rank(&layout, weight, rank)).collect();
                let same = match layout.held(weight.role) {
                    Held::Replicated => tp,
                    Held::Grouped { .. } => layout.replicas(),
                    Held::Cut { .. } => 1,
                };
                for part in &parts {
                    let holders = parts.iter().filter(|other| *other == part).count();
                    assert_eq!(holders, same, "{}, tp {tp}: {}", model.name, weight.name);
                }
            }
        }
    }
}

#[test]
fn a_checkpoint_without_one_sharded_tensor_is_refused_by_name_before_anything_is_read() {
    for model in all().into_iter().take(3) {
        let missing = "model.layers.1.mlp.down_proj.weight";
        let tensors = parameters(&model.load(DType::F32, &Split::whole()));
        let rest = tensors.into_iter().filter(|(name, _)| &**name != missing);
        let out = tempfile::tempdir().unwrap();
        save_folder(
            out.path(),
            &model.config.to_json().unwrap(),
            rest.map(|(name, tensor)| (name.to_string(), tensor)),
        )
        .unwrap();
        let folder = Folder::open(out.path()).unwrap();
        let error = collective::launch(2, &collective::Options::default(), |rank| {
            let tensor = super::ranks::form(&model.config, rank, None)?;
            Decoder::load(&model.config, &folder, DType::F32, &Device::Cpu, &tensor.split())?;
            Ok::<_, ch3_tensor_parallel::Error>(())
        })
        .unwrap_err()
        .to_string();
        assert!(error.contains(missing) && error.contains("rank"), "{error}");
        assert_eq!(folder.bytes_read(), 0);
        assert!(!folder.contains(missing));
    }
}
