//! GGUF metadata, as real files carry it.

use candle_core::quantized::gguf_file::Value;
use decoder::config::{Family, QkNorm, RopeScaling};
use decoder::{Config, Error};
use std::collections::HashMap;

type Metadata = HashMap<String, Value>;

/// The metadata of SmolLM2-135M-Instruct.
fn smollm2(architecture: &str) -> Metadata {
    let key = |name: &str| format!("{architecture}.{name}");
    HashMap::from([
        ("general.architecture".to_owned(), Value::String(architecture.to_owned())),
        (key("block_count"), Value::U32(30)),
        (key("context_length"), Value::U32(8192)),
        (key("embedding_length"), Value::U32(576)),
        (key("feed_forward_length"), Value::U32(1536)),
        (key("attention.head_count"), Value::U32(9)),
        (key("attention.head_count_kv"), Value::U32(3)),
        (key("rope.freq_base"), Value::F32(100_000.0)),
        (key("attention.layer_norm_rms_epsilon"), Value::F32(1e-5)),
        (key("vocab_size"), Value::U32(49_152)),
        (key("rope.dimension_count"), Value::U32(64)),
        ("tokenizer.ggml.bos_token_id".to_owned(), Value::U32(1)),
        ("tokenizer.ggml.eos_token_id".to_owned(), Value::U32(2)),
    ])
}

fn read(metadata: &Metadata, tensors: &[&str], divisors: Option<&[f32]>) -> Result<Config, Error> {
    Config::from_gguf(metadata, |name| tensors.contains(&name), divisors, "model.gguf")
}

fn refusal(changes: &[(&str, Value)]) -> String {
    let mut metadata = smollm2("llama");
    metadata.extend(changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    read(&metadata, &[], None).unwrap_err().to_string()
}

#[test]
fn smollm2_is_read_from_its_metadata() {
    let config = read(&smollm2("llama"), &[], None).unwrap();
    assert_eq!((config.family, config.vocab, config.hidden, config.layers), (Family::Llama, 49_152, 576, 30));
    assert_eq!((config.heads, config.kv_heads, config.head_dim, config.ffn), (9, 3, 64, 1536));
    // The decimal number that the f32 in the file stands for.
    assert_eq!((config.norm_eps, config.rope.theta, config.context), (1e-5, 1e5, 8192));
    assert_eq!((config.bos, config.eos.as_slice(), config.tied), (Some(1), [2].as_slice(), true));
    assert_eq!((config.rope.scaling, config.windows), (RopeScaling::None, vec![None; 30]));
    assert_eq!(read(&smollm2("llama"), &[], None).unwrap().parameters(), 134_515_008);
}

#[test]
fn what_metadata_does_not_say_is_taken_from_the_tensors() {
    let tensors = ["output.weight", "blk.0.attn_q.bias", "blk.0.attn_output.bias", "blk.0.ffn_gate.bias"];
    let config = read(&smollm2("llama"), &tensors, None).unwrap();
    assert!(!config.tied && config.qkv_bias && config.output_bias && config.ffn_bias);
    let qwen2 = read(&smollm2("qwen2"), &[], None).unwrap();
    assert!(qwen2.qkv_bias && !qwen2.output_bias);
    assert_eq!(read(&smollm2("qwen3"), &[], None).unwrap().qk_norm, QkNorm::PerHead);

    let mut metadata = smollm2("llama");
    metadata.remove("llama.vocab_size");
    metadata.insert("tokenizer.ggml.tokens".to_owned(), Value::Array(vec![Value::String("a".to_owned()); 12_345]));
    metadata.insert("tokenizer.ggml.eot_token_id".to_owned(), Value::U32(7));
    let config = read(&metadata, &[], None).unwrap();
    assert_eq!((config.vocab, config.eos.as_slice()), (12_345, [2, 7].as_slice()));
}

#[test]
fn rotary_scaling_is_read_from_metadata_or_from_divisors() {
    let scaled = |kind: &str| {
        let mut metadata = smollm2("llama");
        metadata.insert("llama.rope.scaling.type".to_owned(), Value::String(kind.to_owned()));
        metadata.insert("llama.rope.scaling.factor".to_owned(), Value::F32(4.0));
        metadata.insert("llama.rope.scaling.original_context_length".to_owned(), Value::U32(2048));
        read(&metadata, &[], None).map(|config| config.rope.scaling)
    };
    assert_eq!(scaled("none").unwrap(), RopeScaling::None);
    assert_eq!(scaled("linear").unwrap(), RopeScaling::Linear { factor: 4.0 });
    let yarn = RopeScaling::Yarn {
        factor: 4.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor: 0.1 * 4f64.ln() + 1.0,
        original_context: 2048,
        truncate: true,
    };
    assert_eq!(scaled("yarn").unwrap(), yarn);
    assert!(scaled("longrope").unwrap_err().to_string().contains("llama.rope.scaling.type = \"longrope\""));

    let divisors: Vec<f32> = (0..32).map(|pair| 1.0 + pair as f32 / 4.0).collect();
    let config = read(&smollm2("llama"), &[], Some(&divisors)).unwrap();
    let plain = read(&smollm2("llama"), &[], None).unwrap();
    let (divided, whole) = (config.rope.frequencies(64).inverse, plain.rope.frequencies(64).inverse);
    for pair in 0..32 {
        assert_eq!(divided[pair], whole[pair] / f64::from(divisors[pair]), "pair {pair}");
    }
    assert!(read(&smollm2("llama"), &[], Some(&divisors[1..])).unwrap_err().to_string().contains("32 divisors"));
}

#[test]
fn bad_or_unsupported_metadata_is_named() {
    let text = |text: &str| Value::String(text.to_owned());
    for (changes, parts) in [
        (vec![("general.architecture", text("gpt2"))], ["general.architecture = \"gpt2\"", "not supported yet"]),
        (vec![("general.architecture", text("mamba"))], ["general.architecture = \"mamba\"", "unknown"]),
        (vec![("llama.block_count", Value::U32(0))], ["llama.block_count = 0", "whole number"]),
        (vec![("llama.block_count", Value::U32(4_000_000_000))], ["llama.block_count = 4000000000", "whole number"]),
        (vec![("llama.embedding_length", text("576"))], ["llama.embedding_length = \"576\"", "whole number"]),
        (
            vec![("llama.attention.head_count", Value::U32(7))],
            ["llama.attention.head_count = 7", "llama.embedding_length"],
        ),
        (vec![("llama.attention.head_count_kv", Value::U32(2))], ["llama.attention.head_count_kv = 2", "1, 3, 9"]),
        (
            vec![("llama.attention.head_count_kv", Value::Array(vec![Value::U32(3), Value::U32(9)]))],
            ["llama.attention.head_count_kv = [3,9]", "every layer"],
        ),
        (vec![("llama.rope.dimension_count", Value::U32(32))], ["llama.rope.dimension_count = 32", "64"]),
        (vec![("llama.attention.value_length", Value::U32(32))], ["llama.attention.value_length = 32", "64"]),
        (vec![("llama.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN))], ["rms_epsilon = \"NaN\"", "above 0"]),
        (vec![("llama.expert_count", Value::U32(8))], ["llama.expert_count = 8", "not supported"]),
        (vec![("llama.logit_scale", Value::F32(0.5))], ["llama.logit_scale = 0.5", "expected 1"]),
        (vec![("tokenizer.ggml.eos_token_id", Value::U32(49_152))], ["tokenizer.ggml.eos_token_id = 49152", "outside"]),
    ] {
        let message = refusal(&changes);
        assert!(message.starts_with("model.gguf: "), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}: {parts:?}");
    }
    let mut metadata = smollm2("llama");
    metadata.remove("llama.context_length");
    assert!(read(&metadata, &[], None).unwrap_err().to_string().contains("llama.context_length = absent"));
}
