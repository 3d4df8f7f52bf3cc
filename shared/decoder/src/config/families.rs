//! Which family a config belongs to, and what a family's absent keys mean.

use super::Family;
use super::read::Settings;
use crate::error::Result;

/// `architectures` entry, `model_type`, family.
const SUPPORTED: [(&str, &str, Family); 4] = [
    ("LlamaForCausalLM", "llama", Family::Llama),
    ("MistralForCausalLM", "mistral", Family::Mistral),
    ("Qwen2ForCausalLM", "qwen2", Family::Qwen2),
    ("Qwen3ForCausalLM", "qwen3", Family::Qwen3),
];

/// Families that a later chapter brings.
const NOT_YET: [(&str, &str); 5] = [
    ("GPT2LMHeadModel", "gpt2"),
    ("MixtralForCausalLM", "mixtral"),
    ("Qwen2MoeForCausalLM", "qwen2_moe"),
    ("Qwen3MoeForCausalLM", "qwen3_moe"),
    ("OlmoeForCausalLM", "olmoe"),
];

/// What `transformers` assumes where a family's config does not say.
pub(super) struct Defaults {
    /// `num_key_value_heads`; `None`: as many as query heads.
    pub(super) kv_heads: Option<usize>,
    /// `head_dim`; `None`: hidden size over heads.
    pub(super) head_dim: Option<usize>,
    /// `max_position_embeddings`.
    pub(super) context: usize,
    /// `bos_token_id`.
    pub(super) bos: Option<u32>,
    /// `eos_token_id`.
    pub(super) eos: Option<u32>,
}

impl Family {
    /// The name that Hugging Face configs use in `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The name that Hugging Face configs use in `architectures`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    pub(super) fn defaults(self) -> Defaults {
        match self {
            Self::Llama => Defaults { kv_heads: None, head_dim: None, context: 2_048, bos: Some(1), eos: Some(2) },
            Self::Mistral => {
                Defaults { kv_heads: Some(8), head_dim: None, context: 131_072, bos: Some(1), eos: Some(2) }
            }
            Self::Qwen2 => Defaults { kv_heads: Some(32), head_dim: None, context: 32_768, bos: None, eos: None },
            Self::Qwen3 => Defaults { kv_heads: Some(32), head_dim: Some(128), context: 32_768, bos: None, eos: None },
        }
    }
}

/// The family, from `architectures` and `model_type`: one is enough, and where both are there they agree.
pub(super) fn read(settings: &Settings<'_>) -> Result<Family> {
    let mut family = None;
    let architectures = settings.texts("architectures")?.unwrap_or_default();
    let names = architectures.into_iter().map(|name| ("architectures", name));
    for (key, name) in names.chain(settings.text("model_type")?.map(|name| ("model_type", name))) {
        let named = named(settings, key, name)?;
        if family.is_some_and(|family| family != named) {
            return Err(
                settings.error(key, "contradicts the other names of this model in architectures and model_type")
            );
        }
        family = Some(named);
    }
    family.ok_or_else(|| settings.error("architectures", format!("expected one of {}", supported())))
}

fn named(settings: &Settings<'_>, key: &str, name: &str) -> Result<Family> {
    if let Some(&(_, _, family)) = SUPPORTED.iter().find(|&&(long, short, _)| name == long || name == short) {
        return Ok(family);
    }
    let known = NOT_YET.iter().any(|&(long, short)| name == long || name == short);
    let problem = if known { "this architecture is known but not supported yet" } else { "unknown architecture" };
    Err(settings.error(key, format!("{problem}; supported are {}", supported())))
}

fn supported() -> String {
    SUPPORTED.map(|(long, short, _)| format!("{long} ({short})")).join(", ")
}
