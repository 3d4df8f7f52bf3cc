//! From the metadata of a GGUF file to a [`Config`].
//!
//! GGUF spells the same facts as `{architecture}.block_count` and the like. It does not say which biases there are and
//! whether the head is tied: the tensors in the file say that. Numbers stored in f32 are taken as the decimal number they
//! are nearest to, so that an epsilon of 1e-5 is 1e-5 in f64 too.

use super::read::Settings;
use super::validate::{Keys, derived_head_dim};
use super::{Activation, Config, Family, QkNorm, Rope, RopeScaling, rope, tokens};
use crate::error::Result;
use candle_core::quantized::gguf_file;
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

const DEFAULT_THETA: f64 = 10_000.0;
/// Lists longer than this are vocabularies and merges.
const LONGEST_LIST: usize = 10_000;

/// Settings that would change the numbers, after `{architecture}.`; each is refused unless it is 0 or false.
const UNSUPPORTED: &[&str] = &[
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.scale",
    "attention.sliding_window",
    "attn_logit_softcapping",
    "expert_count",
    "expert_used_count",
    "final_logit_softcapping",
    "rope.dimension_sections",
    "use_parallel_residual",
];

/// Factors that would change the numbers; each is refused unless it is 1.
const UNSUPPORTED_FACTORS: &[&str] =
    &["attention.temperature_scale", "embedding_scale", "logit_scale", "residual_scale", "rope.scale_linear"];

impl Config {
    /// Reads the metadata of a GGUF file (`Content::metadata` of candle). `has_tensor` says whether the file has a tensor
    /// of that GGUF name; `rope_divisors` are the numbers of the tensor `rope_freqs.weight`, if there is one; `origin` is
    /// the file, for messages.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) naming the first key that is missing, illegal, or not supported.
    pub fn from_gguf(
        metadata: &HashMap<String, gguf_file::Value>,
        has_tensor: impl Fn(&str) -> bool,
        rope_divisors: Option<&[f32]>,
        origin: &str,
    ) -> Result<Self> {
        let entries = entries(metadata);
        let settings = Settings::new(&entries, origin);
        let (architecture, family) = family(&settings)?;
        let key = |name: &str| format!("{architecture}.{name}");
        refuse(&settings, architecture)?;

        let keys = keys(architecture);
        let hidden = settings.required_size(&keys.hidden)?;
        let layers = settings.required_size(&keys.layers)?;
        let heads = settings.required_size(&keys.heads)?;
        let vocab = match settings.size(&keys.vocab)? {
            Some(vocab) => vocab,
            None => vocabulary(metadata).ok_or_else(|| settings.error(&keys.vocab, "expected a whole number"))?,
        };
        let head_dim = head_dim(&settings, &keys, architecture, hidden, heads)?;
        let context = settings.required_size(&keys.context)?;
        let bos = tokens::in_vocabulary(&settings, "tokenizer.ggml.bos_token_id", vocab)?.unwrap_or_default();

        let mut config = Self {
            family,
            vocab,
            hidden,
            layers,
            heads,
            kv_heads: kv_heads(&settings, &keys)?.unwrap_or(heads),
            head_dim,
            ffn: settings.required_size(&keys.ffn)?,
            activation: Activation::Silu,
            norm_eps: required_number(&settings, &keys.norm_eps)?,
            rope: Rope {
                theta: settings.number(&keys.theta, "above 1", |theta| theta > 1.0)?.unwrap_or(DEFAULT_THETA),
                scaling: rope_scaling(&settings, &key("rope.scaling"), rope_divisors, context)?,
            },
            qkv_bias: family == Family::Qwen2 || has_tensor("blk.0.attn_q.bias"),
            output_bias: has_tensor("blk.0.attn_output.bias"),
            ffn_bias: has_tensor("blk.0.ffn_gate.bias"),
            qk_norm: if family == Family::Qwen3 { QkNorm::PerHead } else { QkNorm::None },
            windows: Vec::new(),
            tied: !has_tensor("output.weight"),
            context,
            bos: bos.first().copied(),
            eos: ends(&settings, vocab)?,
            dtype: None,
        };
        config.check_sizes(origin, &keys)?;
        config.windows = vec![None; layers];
        config.check(origin, &keys)?;
        Ok(config)
    }
}

/// Metadata as JSON, without the long lists.
fn entries(metadata: &HashMap<String, gguf_file::Value>) -> Map<String, Value> {
    metadata.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()
}

fn to_json(value: &gguf_file::Value) -> Value {
    use gguf_file::Value as Gguf;
    match value {
        Gguf::U8(number) => (*number).into(),
        Gguf::I8(number) => (*number).into(),
        Gguf::U16(number) => (*number).into(),
        Gguf::I16(number) => (*number).into(),
        Gguf::U32(number) => (*number).into(),
        Gguf::I32(number) => (*number).into(),
        Gguf::U64(number) => (*number).into(),
        Gguf::I64(number) => (*number).into(),
        Gguf::F32(number) => decimal(number.to_string()),
        Gguf::F64(number) => decimal(number.to_string()),
        Gguf::Bool(flag) => (*flag).into(),
        Gguf::String(text) => text.as_str().into(),
        Gguf::Array(list) if list.len() > LONGEST_LIST => format!("a list of {} values", list.len()).into(),
        Gguf::Array(list) => list.iter().map(to_json).collect(),
    }
}

/// The number that `text` spells; not-a-number and infinities stay text, which no key accepts.
fn decimal(text: String) -> Value {
    let number = text.parse().ok().and_then(Number::from_f64);
    number.map_or(Value::String(text), Value::Number)
}

fn family<'a>(settings: &Settings<'a>) -> Result<(&'a str, Family)> {
    const KEY: &str = "general.architecture";
    const SUPPORTED: &str = "supported are llama (also Mistral), qwen2, qwen3";
    match settings.text(KEY)? {
        Some(name @ "llama") => Ok((name, Family::Llama)),
        Some(name @ "qwen2") => Ok((name, Family::Qwen2)),
        Some(name @ "qwen3") => Ok((name, Family::Qwen3)),
        Some("gpt2" | "qwen2moe" | "qwen3moe" | "olmoe") => {
            Err(settings.error(KEY, format!("this architecture is known but not supported yet; {SUPPORTED}")))
        }
        _ => Err(settings.error(KEY, format!("unknown architecture; {SUPPORTED}"))),
    }
}

fn keys(architecture: &str) -> Keys {
    let key = |name: &str| format!("{architecture}.{name}");
    Keys {
        vocab: key("vocab_size"),
        hidden: key("embedding_length"),
        layers: key("block_count"),
        heads: key("attention.head_count"),
        kv_heads: key("attention.head_count_kv"),
        head_dim: key("attention.key_length"),
        ffn: key("feed_forward_length"),
        context: key("context_length"),
        norm_eps: key("attention.layer_norm_rms_epsilon"),
        theta: key("rope.freq_base"),
    }
}

fn refuse(settings: &Settings<'_>, architecture: &str) -> Result<()> {
    let switches = UNSUPPORTED.iter().map(|name| (name, 0.0));
    for (name, neutral) in switches.chain(UNSUPPORTED_FACTORS.iter().map(|name| (name, 1.0))) {
        let key = format!("{architecture}.{name}");
        if settings.get(&key).is_some_and(|value| value.as_f64() != Some(neutral) && value.as_bool() != Some(false)) {
            return Err(settings.error(&key, format!("this setting is not supported; expected {neutral} or no key")));
        }
    }
    Ok(())
}

fn vocabulary(metadata: &HashMap<String, gguf_file::Value>) -> Option<usize> {
    match metadata.get("tokenizer.ggml.tokens") {
        Some(gguf_file::Value::Array(tokens)) if !tokens.is_empty() => Some(tokens.len()),
        _ => None,
    }
}

/// One number for all layers, or one per layer as long as they are equal.
fn kv_heads(settings: &Settings<'_>, keys: &Keys) -> Result<Option<usize>> {
    match settings.get(&keys.kv_heads) {
        Some(Value::Array(list)) => {
            let first = list.first().and_then(Value::as_u64).and_then(|heads| usize::try_from(heads).ok());
            let equal = first.filter(|_| list.iter().all(|heads| Some(heads) == list.first()));
            equal
                .map(Some)
                .ok_or_else(|| settings.error(&keys.kv_heads, "expected one number, the same for every layer"))
        }
        _ => settings.size(&keys.kv_heads),
    }
}

/// The width of a head: the same for keys, values and the rotary embedding.
fn head_dim(settings: &Settings<'_>, keys: &Keys, architecture: &str, hidden: usize, heads: usize) -> Result<usize> {
    let head_dim = match settings.size(&keys.head_dim)? {
        Some(head_dim) => head_dim,
        None => derived_head_dim(settings.origin(), keys, hidden, heads)?,
    };
    for name in ["attention.value_length", "rope.dimension_count"] {
        let key = format!("{architecture}.{name}");
        if settings.size(&key)?.is_some_and(|width| width != head_dim) {
            return Err(settings.error(&key, format!("expected {head_dim}, the width of a head")));
        }
    }
    Ok(head_dim)
}

fn required_number(settings: &Settings<'_>, key: &str) -> Result<f64> {
    settings.positive(key)?.ok_or_else(|| settings.error(key, "expected a number above 0"))
}

/// End of text, of a turn, of a message.
fn ends(settings: &Settings<'_>, vocab: usize) -> Result<Vec<u32>> {
    let mut ends = Vec::new();
    for name in ["eos", "eot", "eom"] {
        let ids = tokens::in_vocabulary(settings, &format!("tokenizer.ggml.{name}_token_id"), vocab)?;
        for id in ids.unwrap_or_default() {
            if !ends.contains(&id) {
                ends.push(id);
            }
        }
    }
    Ok(ends)
}

fn rope_scaling(
    settings: &Settings<'_>,
    prefix: &str,
    divisors: Option<&[f32]>,
    context: usize,
) -> Result<RopeScaling> {
    let key = |name: &str| format!("{prefix}.{name}");
    let number = |name: &str| settings.positive(&key(name));
    let factor = || settings.number(&key("factor"), "of at least 1", |factor| factor >= 1.0);
    let kind = settings.text(&key("type"))?.unwrap_or("none");
    if divisors.is_some() && kind != "none" {
        return Err(settings.error(&key("type"), "the file has rope_freqs.weight as well; expected none"));
    }
    match kind {
        "none" => Ok(match divisors {
            Some(divisors) => {
                RopeScaling::Divisors { divisors: divisors.iter().map(|&divisor| divisor.into()).collect() }
            }
            None => RopeScaling::None,
        }),
        "linear" => Ok(RopeScaling::Linear { factor: factor()?.unwrap_or(1.0) }),
        "yarn" => {
            let factor = factor()?.ok_or_else(|| settings.error(&key("factor"), "expected a number of at least 1"))?;
            Ok(RopeScaling::Yarn {
                factor,
                beta_fast: number("yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: number("yarn_beta_slow")?.unwrap_or(1.0),
                // GGUF states a factor on top of the usual one.
                attention_factor: number("attn_factor")?.unwrap_or(1.0) * rope::yarn_factor(factor, 1.0),
                original_context: settings.size(&key("original_context_length"))?.unwrap_or(context),
                truncate: true,
            })
        }
        _ => Err(settings.error(&key("type"), "this scaling is not supported; expected none, linear or yarn")),
    }
}
