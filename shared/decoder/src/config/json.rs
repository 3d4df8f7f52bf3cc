//! From a Hugging Face `config.json` to a [`Config`].

use super::read::{Settings, parse};
use super::validate::{Keys, derived_head_dim};
use super::{Activation, Config, Family, QkNorm, families, rope, tokens, unsupported, windows};
use crate::error::{Error, Result};
use candle_core::DType;

const DEFAULT_NORM_EPS: f64 = 1e-6;

impl Config {
    /// Reads the text of a `config.json`, and of the `generation_config.json` beside it if there is one (it may name the
    /// tokens that begin and end a sequence). `origin` is the path of the `config.json`, for messages.
    ///
    /// # Errors
    /// [`Error::Model`] if a text is not a JSON object; [`Error::Config`] naming the first key that is missing, has the
    /// wrong type or an illegal value, contradicts another, or asks for something that is not supported.
    pub fn from_json(config_json: &str, generation_config_json: Option<&str>, origin: &str) -> Result<Self> {
        let entries = parse(config_json, origin)?;
        let settings = Settings::new(&entries, origin);
        let generation_origin = generation_origin(origin);
        let generation = generation_config_json.map(|text| parse(text, &generation_origin)).transpose()?;
        let generation = generation.as_ref().map(|entries| Settings::new(entries, &generation_origin));

        let family = families::read(&settings)?;
        unsupported::refuse(&settings)?;
        read(&settings, generation.as_ref(), family, origin).map_err(|error| name_default(error, &settings, family))
    }
}

fn read(settings: &Settings<'_>, generation: Option<&Settings<'_>>, family: Family, origin: &str) -> Result<Config> {
    let defaults = family.defaults();
    let hidden = settings.required_size("hidden_size")?;
    let layers = settings.required_size("num_hidden_layers")?;
    let heads = settings.required_size("num_attention_heads")?;
    let vocab = settings.required_size("vocab_size")?;
    let ffn = settings.required_size("intermediate_size")?;
    let context = settings.size("max_position_embeddings")?.unwrap_or(defaults.context);

    // Null asks for the value derived from others, absence for the family's own default.
    let default_kv_heads = defaults.kv_heads.filter(|_| !settings.is_null("num_key_value_heads"));
    let kv_heads = settings.size("num_key_value_heads")?.or(default_kv_heads).unwrap_or(heads);
    let default_head_dim = defaults.head_dim.filter(|_| !settings.is_null("head_dim"));
    let head_dim = match settings.size("head_dim")?.or(default_head_dim) {
        Some(head_dim) => head_dim,
        None => derived_head_dim(origin, &Keys::json(), hidden, heads)?,
    };
    let biases = biases(settings, family)?;
    let special = tokens::read(settings, generation, &defaults, vocab)?;

    let mut config = Config {
        family,
        vocab,
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        ffn,
        activation: activation(settings)?,
        norm_eps: settings.positive("rms_norm_eps")?.unwrap_or(DEFAULT_NORM_EPS),
        rope: rope::read(settings, context)?,
        qkv_bias: biases.qkv,
        output_bias: biases.output,
        ffn_bias: biases.ffn,
        qk_norm: if family == Family::Qwen3 { QkNorm::PerHead } else { QkNorm::None },
        windows: Vec::new(),
        tied: settings.flag("tie_word_embeddings")?.unwrap_or(false),
        context,
        bos: special.bos,
        eos: special.eos,
        dtype: dtype(settings)?,
    };
    config.check_sizes(origin, &Keys::json())?;
    // Only now is the number of layers known to be sane.
    config.windows = windows::read(settings, family, layers)?;
    config.validate(origin)?;
    Ok(config)
}

/// Which projections have biases.
struct Biases {
    qkv: bool,
    output: bool,
    ffn: bool,
}

fn biases(settings: &Settings<'_>, family: Family) -> Result<Biases> {
    let attention = settings.flag("attention_bias")?;
    let ffn = settings.flag("mlp_bias")?.unwrap_or(false);
    if ffn && family != Family::Llama {
        return Err(settings.error("mlp_bias", "this family has no biases in the feed-forward network; expected false"));
    }
    match (family, attention) {
        (Family::Llama | Family::Qwen3, attention) => {
            let all = attention.unwrap_or(false);
            Ok(Biases { qkv: all, output: all, ffn })
        }
        (Family::Mistral, None | Some(false)) => Ok(Biases { qkv: false, output: false, ffn }),
        (Family::Mistral, Some(true)) => {
            Err(settings.error("attention_bias", "this family has no biases in attention; expected false"))
        }
        // Implied: no key of Qwen2's config mentions it.
        (Family::Qwen2, None | Some(true)) => Ok(Biases { qkv: true, output: false, ffn }),
        (Family::Qwen2, Some(false)) => {
            Err(settings
                .error("attention_bias", "this family always has biases on q, k and v; expected true or no key"))
        }
    }
}

fn activation(settings: &Settings<'_>) -> Result<Activation> {
    match settings.text("hidden_act")? {
        None | Some("silu" | "swish") => Ok(Activation::Silu),
        Some("gelu" | "gelu_python") => Ok(Activation::Gelu),
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_python_tanh") => Ok(Activation::GeluTanh),
        Some(_) => Err(settings.error("hidden_act", "not supported; expected silu, gelu or gelu_pytorch_tanh")),
    }
}

/// `dtype`, or `torch_dtype` as older files call it.
fn dtype(settings: &Settings<'_>) -> Result<Option<DType>> {
    let key = if settings.get("dtype").is_some() { "dtype" } else { "torch_dtype" };
    let Some(name) = settings.text(key)? else { return Ok(None) };
    match name.strip_prefix("torch.").unwrap_or(name) {
        "auto" => Ok(None),
        "float64" => Ok(Some(DType::F64)),
        "float32" => Ok(Some(DType::F32)),
        "float16" => Ok(Some(DType::F16)),
        "bfloat16" => Ok(Some(DType::BF16)),
        _ => Err(settings.error(key, "not supported; expected float64, float32, float16 or bfloat16")),
    }
}

/// The `generation_config.json` beside the `config.json` at `origin`.
fn generation_origin(origin: &str) -> String {
    match origin.strip_suffix("config.json") {
        Some(folder) => format!("{folder}generation_config.json"),
        None => format!("{origin} (generation_config.json)"),
    }
}

/// A value that stands nowhere in the file is said to be the family's default.
fn name_default(error: Error, settings: &Settings<'_>, family: Family) -> Error {
    match error {
        Error::Config { origin, key, found, expected }
            if ["num_key_value_heads", "head_dim"].contains(&key.as_str()) && settings.get(&key).is_none() =>
        {
            let found = format!("{found} (assumed for {}, as the key is absent)", family.model_type());
            Error::Config { origin, key, found, expected }
        }
        other => other,
    }
}
