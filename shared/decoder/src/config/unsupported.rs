//! Settings that would change the numbers and are not supported.
//!
//! The policy, for every key that nothing else in `config` reads:
//! 1. `null`, `false`, 0 and empty values switch nothing on: ignored.
//! 2. [`HARMLESS`] keys are known to matter only in training, for text generation, or to other programs, and so are keys
//!    that start with `_`: ignored.
//! 3. [`NEUTRAL_AT_ONE`] keys are factors: 1 is ignored.
//! 4. Any other key whose name has one of [`WORDS`] may change what is computed: an error that names key and value.
//! 5. What is left is taken for metadata (`unsloth_version`, `auto_map`, …): ignored.
//!
//! So a new harmless key does not stop a model from loading, and a new way to compute does.

use super::read::Settings;
use crate::error::Result;
use serde_json::Value;

/// Keys that the other modules read and judge.
#[rustfmt::skip]
const READ: &[&str] = &[
    "architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "intermediate_size", "hidden_act", "rms_norm_eps", "attention_bias",
    "mlp_bias", "tie_word_embeddings", "max_position_embeddings", "original_max_position_embeddings", "rope_theta",
    "rope_scaling", "rope_parameters", "partial_rotary_factor", "sliding_window", "use_sliding_window",
    "max_window_layers", "layer_types", "bos_token_id", "eos_token_id", "dtype", "torch_dtype",
    "quantization_config",
];

/// Keys that do not change what one forward pass computes, though their names have one of [`WORDS`].
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    // training
    "attention_dropout", "hidden_dropout", "attention_probs_dropout_prob", "attn_pdrop", "hidden_dropout_prob",
    "embedding_initializer_range", "router_aux_loss_coef", "output_router_logits", "router_jitter_noise",
    "norm_topk_prob",
    // what is returned
    "output_attentions", "output_hidden_states", "keys_to_ignore_at_inference", "chunk_size_feed_forward",
    // how transformers and other programs compute the same
    "attn_implementation", "is_llama_config", "transformers.js_config", "use_flash_attn",
    // text generation, in old configs
    "encoder_no_repeat_ngram_size", "remove_invalid_values",
];

/// Factors that do nothing at 1.
#[rustfmt::skip]
const NEUTRAL_AT_ONE: &[&str] = &[
    "pretraining_tp", "logits_scaling", "logit_scale", "embedding_multiplier", "residual_multiplier",
    "hidden_multiplier", "lm_head_multiplier", "key_multiplier", "embedding_scale", "residual_scale", "rotary_pct",
    "rope_ratio",
];

/// Parts of names of settings that may change what is computed.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "attention", "attn", "norm", "rope", "rotary", "alibi", "position", "scal", "softcap", "logit", "clip", "cap",
    "multiplier", "bias", "expert", "moe", "router", "window", "layer", "head", "query", "key", "value", "qk", "qkv",
    "kv_", "_act", "activation", "mlp", "ffn", "feed_forward", "embedding", "residual", "parallel", "quant",
    "_config", "vision", "audio", "lora", "adapter", "mup", "cross_", "encoder", "prune", "sparse", "pretraining_tp",
    "temperature_tuning", "rank", "mamba", "ssm", "recurrent", "hidden", "intermediate", "epsilon", "_eps",
];

/// Refuses the first setting that would change the numbers and that nothing here supports.
pub(super) fn refuse(settings: &Settings<'_>) -> Result<()> {
    if settings.get("quantization_config").is_some() {
        return Err(settings.error(
            "quantization_config",
            "quantised checkpoints are not supported; take the unquantised weights, or a GGUF file",
        ));
    }
    for (key, value) in settings.entries() {
        if READ.contains(&key) || HARMLESS.contains(&key) || key.starts_with('_') || switches_nothing_on(value) {
            continue;
        }
        if NEUTRAL_AT_ONE.contains(&key) {
            if value.as_f64() != Some(1.0) {
                return Err(settings.error(key, "not supported; expected 1"));
            }
        } else if counts_experts(key) {
            return Err(
                settings.error(key, "mixtures of experts are known but not supported yet; expected a dense model")
            );
        } else if WORDS.iter().any(|word| key.contains(word)) {
            return Err(settings.error(
                key,
                "this setting is not supported and may change the numbers; expected null, or remove the key if it does not",
            ));
        }
    }
    Ok(())
}

fn switches_nothing_on(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

fn counts_experts(key: &str) -> bool {
    key.contains("expert") || key.contains("moe_")
}
