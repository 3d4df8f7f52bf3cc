//! Small random models of every shape, and tokens for them.

use candle_core::{DType, Device, Tensor};
use decoder::random::Rng;
use decoder::split::Split;
use decoder::weights::Part;
use decoder::weights::Weights;
use decoder::weights::memory::Memory;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder, Tokens};
use serde_json::{Value, json};

/// Where every draw of this binary starts; `DECODER_TEST_SEED` chooses another.
pub(crate) fn seed() -> u64 {
    std::env::var("DECODER_TEST_SEED").map_or(1, |text| text.parse().expect("DECODER_TEST_SEED is a whole number"))
}

/// A random model, not yet loaded.
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) config: Config,
    /// In f64, each value exactly an f32 too.
    pub(crate) weights: Memory,
}

/// A Llama with 2 layers, 3 heads of width 4 and a context of 96 tokens, with some keys changed or added.
pub(crate) fn config(changes: &Value) -> Config {
    let mut text = json!({
        "model_type": "llama", "vocab_size": 29, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 3, "num_key_value_heads": 3, "max_position_embeddings": 96, "rms_norm_eps": 1e-5,
        "rope_theta": 500.0,
    });
    text.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    Config::from_json(&text.to_string(), None, "config.json").unwrap()
}

impl Model {
    /// Matrices are normal with standard deviation 0.3; unlike in a fresh model, norms are not ones and biases not zeros.
    pub(crate) fn new(name: &str, changes: &Value) -> Self {
        let config = config(changes);
        let random = Random { seed: seed(), std: 0.3 };
        let mut rng = Rng::new(seed());
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
        Self { name: format!("{name} (seed {})", seed()), config, weights }
    }

    pub(crate) fn load(&self, dtype: DType) -> Decoder {
        self.load_part(dtype, &Split::whole())
    }

    pub(crate) fn load_part(&self, dtype: DType, split: &Split) -> Decoder {
        Decoder::load(&self.config, &self.weights, dtype, &Device::Cpu, split).unwrap()
    }

    /// All weights by name.
    pub(crate) fn tensors(&self) -> Vec<(String, Tensor)> {
        let read = |spec| self.weights.read(&spec, &Part::Whole, DType::F64, &Device::Cpu).unwrap();
        self.config.weights().into_iter().map(|spec| (spec.name.to_string(), read(spec))).collect()
    }

    /// Random tokens, one row per length.
    pub(crate) fn rows(&self, lengths: &[usize]) -> Vec<Vec<u32>> {
        let mut rng = Rng::new(seed().wrapping_add(1_000));
        lengths.iter().map(|&length| (0..length).map(|_| rng.below(self.config.vocab) as u32).collect()).collect()
    }

    /// A random target per token of `rows` padded to the longest, ignored where there is no token.
    pub(crate) fn targets(&self, rows: &[Vec<u32>]) -> Vec<u32> {
        let seq = rows.iter().map(Vec::len).max().unwrap();
        let mut rng = Rng::new(seed().wrapping_add(2_000));
        let target = |exists, drawn: usize| if exists { drawn as u32 } else { decoder::ops::IGNORED };
        rows.iter()
            .flat_map(|row| (0..seq).map(move |index| index < row.len()))
            .map(|exists| target(exists, rng.below(self.config.vocab)))
            .collect()
    }
}

/// One model per shape that published families have, in small.
pub(crate) fn all() -> Vec<Model> {
    let shapes = [
        ("one layer, as many key heads as heads", json!({ "num_hidden_layers": 1 })),
        (
            "grouped heads wider than hidden / heads, tied",
            json!({ "hidden_size": 10, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
                    "tie_word_embeddings": true }),
        ),
        (
            "one key head, every bias, odd sizes, gelu",
            json!({ "num_key_value_heads": 1, "attention_bias": true, "mlp_bias": true, "hidden_size": 9, "head_dim": 2,
                    "intermediate_size": 7, "vocab_size": 31, "hidden_act": "gelu" }),
        ),
        ("mistral, window 1", json!({ "model_type": "mistral", "sliding_window": 1 })),
        (
            "mistral, window 3, grouped heads",
            json!({ "model_type": "mistral", "sliding_window": 3, "num_attention_heads": 6, "num_key_value_heads": 2 }),
        ),
        (
            "qwen2, windows in some layers, biases, tied",
            json!({ "model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 3,
                    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                    "tie_word_embeddings": true }),
        ),
        (
            "qwen3, norms on q and k, tanh gelu",
            json!({ "model_type": "qwen3", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10,
                    "hidden_act": "gelu_pytorch_tanh" }),
        ),
        (
            "yarn, a window of one block",
            json!({ "model_type": "mistral", "sliding_window": 64, "num_attention_heads": 2, "num_key_value_heads": 1,
                    "rope_scaling": { "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 48 } }),
        ),
    ];
    shapes.iter().map(|(name, changes)| Model::new(name, changes)).collect()
}

/// Sequences from their beginning.
pub(crate) fn tokens(rows: &[Vec<u32>]) -> Tokens {
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    Tokens::from_zero(&rows, &Device::Cpu).unwrap()
}

/// Logits of all tokens of whole sequences, without cache: `[batch, seq, vocab]`.
pub(crate) fn logits(model: &Decoder, rows: &[Vec<u32>]) -> Tensor {
    model.logits(&Context::inference(), &tokens(rows), None).unwrap()
}
