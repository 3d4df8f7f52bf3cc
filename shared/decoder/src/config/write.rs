//! From a [`Config`] back to a Hugging Face `config.json`.

use super::{Activation, Config, Family, RopeScaling};
use crate::error::{Error, Result};
use candle_core::DType;
use serde_json::{Map, Value, json};

impl Config {
    /// The text of a `config.json` that says the same; [`Config::from_json`] reads it back to an equal config. Rotary
    /// settings are spelled the old way, which every version of `transformers` reads.
    ///
    /// # Errors
    /// [`Error::Config`] if the family's `config.json` cannot express it: rotary divisors from a GGUF file, or switches
    /// that the family does not have.
    pub fn to_json(&self) -> Result<String> {
        self.validate(ORIGIN)?;
        let mut entries = self.shape();
        entries.extend(self.switches());
        entries.insert("rope_scaling".to_owned(), self.rope_scaling()?);
        let text = format!("{:#}\n", Value::Object(entries));
        // The family may have no key for a switch that was set in code; reading back shows it.
        let mut again = Self::from_json(&text, None, ORIGIN)?;
        // Numbers are written to their last digit, but read back only to the last but one.
        again.rope = self.rope.clone();
        again.norm_eps = self.norm_eps;
        if again == *self { Ok(text) } else { Err(self.inexpressible(&again)) }
    }

    fn shape(&self) -> Map<String, Value> {
        let eos = match *self.eos.as_slice() {
            [] => Value::Null,
            [id] => id.into(),
            _ => self.eos.clone().into(),
        };
        let mut entries = Map::new();
        let mut put = |key: &str, value: Value| entries.insert(key.to_owned(), value);
        put("architectures", json!([self.family.architecture()]));
        put("model_type", self.family.model_type().into());
        put("vocab_size", self.vocab.into());
        put("hidden_size", self.hidden.into());
        put("num_hidden_layers", self.layers.into());
        put("num_attention_heads", self.heads.into());
        put("num_key_value_heads", self.kv_heads.into());
        put("head_dim", self.head_dim.into());
        put("intermediate_size", self.ffn.into());
        put("max_position_embeddings", self.context.into());
        put("rms_norm_eps", self.norm_eps.into());
        put("rope_theta", self.rope.theta.into());
        put("tie_word_embeddings", self.tied.into());
        put("bos_token_id", json!(self.bos));
        put("eos_token_id", eos);
        put("torch_dtype", json!(self.dtype.and_then(dtype_name)));
        entries
    }

    fn switches(&self) -> Map<String, Value> {
        let mut entries = Map::new();
        let mut put = |key: &str, value: Value| entries.insert(key.to_owned(), value);
        let activation = match self.activation {
            Activation::Silu => "silu",
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_pytorch_tanh",
        };
        put("hidden_act", activation.into());
        if matches!(self.family, Family::Llama | Family::Qwen3) {
            put("attention_bias", self.qkv_bias.into());
        }
        if self.family == Family::Llama {
            put("mlp_bias", self.ffn_bias.into());
        }
        let window = self.windows.iter().flatten().next().copied();
        if self.family != Family::Llama {
            put("sliding_window", json!(window));
        }
        if matches!(self.family, Family::Qwen2 | Family::Qwen3) {
            let kind = |window: &Option<usize>| if window.is_some() { "sliding_attention" } else { "full_attention" };
            put("use_sliding_window", window.is_some().into());
            put("layer_types", self.windows.iter().map(kind).collect());
        }
        entries
    }

    fn rope_scaling(&self) -> Result<Value> {
        match &self.rope.scaling {
            RopeScaling::None => Ok(Value::Null),
            RopeScaling::Linear { factor } => Ok(json!({ "rope_type": "linear", "factor": factor })),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => Ok(json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                "original_max_position_embeddings": original_context,
            })),
            RopeScaling::Yarn { factor, beta_fast, beta_slow, attention_factor, original_context, truncate } => {
                Ok(json!({
                    "rope_type": "yarn",
                    "factor": factor,
                    "beta_fast": beta_fast,
                    "beta_slow": beta_slow,
                    "attention_factor": attention_factor,
                    "original_max_position_embeddings": original_context,
                    "truncate": truncate,
                }))
            }
            RopeScaling::Divisors { divisors } => Err(Error::Config {
                origin: ORIGIN.to_owned(),
                key: "rope_scaling".to_owned(),
                found: format!("{} divisors from a GGUF file", divisors.len()),
                expected: "config.json has no form for them; save a model that came from a config.json".to_owned(),
            }),
        }
    }

    fn inexpressible(&self, again: &Self) -> Error {
        let switches = |config: &Self| {
            let Self { qkv_bias, output_bias, ffn_bias, qk_norm, .. } = config;
            let windows = config.windows.iter().flatten().count();
            format!("biases q/k/v {qkv_bias}, o {output_bias}, ffn {ffn_bias}; q/k norm {qk_norm:?}; {windows} windows")
        };
        Error::Config {
            origin: ORIGIN.to_owned(),
            key: "model_type".to_owned(),
            found: format!("{} with {}", self.family.model_type(), switches(self)),
            expected: format!("config.json of this family can only say: {}", switches(again)),
        }
    }
}

const ORIGIN: &str = "config.json to be written";

fn dtype_name(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F64 => Some("float64"),
        DType::F32 => Some("float32"),
        DType::F16 => Some("float16"),
        DType::BF16 => Some("bfloat16"),
        _ => None,
    }
}
