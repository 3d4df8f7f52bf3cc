//! GGUF's tensor names and Hugging Face's.

/// The Hugging Face name of a GGUF tensor; a tensor that has none there keeps its own.
pub(super) fn hugging_face(name: &str) -> String {
    layer_weight(name).unwrap_or_else(|| {
        match name {
            "token_embd.weight" => "model.embed_tokens.weight",
            "output_norm.weight" => "model.norm.weight",
            "output.weight" => "lm_head.weight",
            other => other,
        }
        .into()
    })
}

/// `blk.7.attn_q.bias` → `model.layers.7.self_attn.q_proj.bias`.
fn layer_weight(name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (weight, kind) = rest.rsplit_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let weight = match weight {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    Some(format!("model.layers.{layer}.{weight}.{kind}"))
}
