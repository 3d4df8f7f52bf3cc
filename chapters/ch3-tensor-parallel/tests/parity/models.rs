//! The bundled model, every dense oracle folder, and seeded models whose heads fit few layouts.

use candle_core::{DType, Device, Tensor};
use ch3_tensor_parallel::Layout;
use decoder::ops::IGNORED;
use decoder::random::Rng;
use decoder::source::Source;
use decoder::split::Split;
use decoder::weights::memory::Memory;
use decoder::weights::random::Random;
use decoder::weights::{Part, Weights};
use decoder::{Config, Decoder, Tokens};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Numbers of ranks that are tried, where legal.
pub(crate) const RANKS: [usize; 4] = [2, 3, 4, 8];

/// Where every draw of this binary starts; `TEST_SEED` chooses another.
pub(crate) fn seed() -> u64 {
    std::env::var("TEST_SEED").map_or(1, |text| text.parse().expect("TEST_SEED is a whole number"))
}

pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) weights: Box<dyn Weights>,
}

pub(crate) fn workspace() -> PathBuf {
    // At run time, so that a program built elsewhere finds it.
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).join("../..")
}

pub(crate) fn folder(path: &Path) -> Model {
    let source = Source::resolve(path.to_str().unwrap(), None, path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    Model { name, config: source.config().unwrap(), weights: source.weights().unwrap() }
}

pub(crate) fn bundled() -> Model {
    folder(&workspace().join("assets/stories-1.9m"))
}

fn seeded(name: &str, changes: &Value) -> Model {
    let mut text = json!({
        "model_type": "llama", "vocab_size": 101, "hidden_size": 48, "intermediate_size": 66, "num_hidden_layers": 2,
        "max_position_embeddings": 96, "rms_norm_eps": 1e-5, "rope_theta": 500.0, "eos_token_id": null,
    });
    text.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let config = Config::from_json(&text.to_string(), None, "config.json").unwrap();
    let (random, mut rng) = (Random { seed: seed(), std: 0.2 }, Rng::new(seed()));
    // Unlike in a fresh model, norms are not ones and biases not zeros.
    let weights = config.weights().into_iter().map(|spec| {
        let mut value = random.read(&spec, &Part::Whole, DType::F64, &Device::Cpu).unwrap();
        if spec.shape.len() == 1 {
            let noise =
                Tensor::from_iter((0..spec.shape[0]).map(|_| f64::from(0.2 * rng.normal() as f32)), &Device::Cpu);
            value = (value + noise.unwrap()).unwrap().to_dtype(DType::F32).unwrap().to_dtype(DType::F64).unwrap();
        }
        (spec.name.to_string(), value)
    });
    let weights = Memory::new(weights.collect::<Vec<_>>());
    Model { name: format!("{name} (seed {})", seed()), config, weights: Box::new(weights) }
}

/// All models.
pub(crate) fn all() -> Vec<Model> {
    let tiny = workspace().join("tests/fixtures/tiny");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(tiny).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert_eq!(folders.len(), 9, "every dense oracle folder");
    let mut models: Vec<Model> = std::iter::once(bundled()).chain(folders.iter().map(|path| folder(path))).collect();
    let six = json!({ "num_attention_heads": 6, "num_key_value_heads": 3 });
    let sixteen = json!({ "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 176,
                          "attention_bias": true, "mlp_bias": true });
    let shared_norms = json!({ "model_type": "qwen3", "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 6,
                               "intermediate_size": 40 });
    models.push(seeded("6 heads, 3 kv", &six));
    models.push(seeded("16 heads, 2 kv, ffn 176, biases", &sixteen));
    models.push(seeded("8 heads, 2 kv, norms on q and k", &shared_norms));
    models
}

/// Every model with every legal number of ranks, and what was left out and why, said aloud.
pub(crate) fn cases() -> Vec<(Model, Vec<usize>)> {
    println!(
        "rules: tp divides the heads; divides the key heads or is a multiple of them; divides the feed-forward width"
    );
    let (mut legal, mut refused) = (0, 0);
    let cases: Vec<_> = all()
        .into_iter()
        .map(|model| {
            let (fit, not): (Vec<_>, Vec<_>) =
                RANKS.into_iter().partition(|&tp| Layout::new(&model.config, tp).is_ok());
            println!("{}: tp {fit:?}; not {not:?}", model.name);
            legal += fit.len();
            refused += not.len();
            (model, fit)
        })
        .collect();
    println!("{legal} cases, {refused} refused by the rules");
    assert!(cases.iter().all(|(_, fit)| !fit.is_empty()), "every model is tested on at least one layout");
    cases
}

impl Model {
    pub(crate) fn load(&self, dtype: DType, split: &Split) -> Decoder {
        Decoder::load(&self.config, &*self.weights, dtype, &Device::Cpu, split).unwrap()
    }

    /// Random tokens, one row per length.
    pub(crate) fn rows(&self, lengths: &[usize]) -> Vec<Vec<u32>> {
        let mut rng = Rng::new(seed().wrapping_add(1_000));
        lengths.iter().map(|&length| (0..length).map(|_| rng.below(self.config.vocab) as u32).collect()).collect()
    }
}

/// Sequences from their beginning, padded, and what follows each token: random ids, ignored in padding and here and there.
pub(crate) fn batch(model: &Model, lengths: &[usize]) -> (Tokens, Vec<u32>) {
    let rows = model.rows(lengths);
    let seq = lengths.iter().copied().max().unwrap();
    let mut rng = Rng::new(seed().wrapping_add(2_000));
    let targets = rows.iter().flat_map(|row| (0..seq).map(move |index| index < row.len())).map(|exists| {
        let drawn = rng.below(model.config.vocab) as u32;
        if exists && rng.below(7) > 0 { drawn } else { IGNORED }
    });
    let targets = targets.collect();
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    (Tokens::from_zero(&rows, &Device::Cpu).unwrap(), targets)
}
