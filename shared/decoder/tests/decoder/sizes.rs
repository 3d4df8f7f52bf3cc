//! Sizes at the edge of what is legal.

use super::models::{Model, logits, tokens};
use super::reference;
use super::sums::backward;
use super::tolerance::{assert_close, numbers, tensor};
use candle_core::{DType, Device};
use decoder::{Context, Tokens};
use serde_json::json;

#[test]
fn the_smallest_sizes_compute() {
    let shapes = [
        json!({ "vocab_size": 1, "bos_token_id": 0, "eos_token_id": 0 }),
        json!({ "hidden_size": 2, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 1 }),
        json!({ "hidden_size": 1, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 2 }),
        json!({ "hidden_size": 3, "num_attention_heads": 7, "num_key_value_heads": 7, "head_dim": 2, "num_hidden_layers": 1 }),
        json!({ "hidden_size": 67, "num_attention_heads": 3, "head_dim": 66, "intermediate_size": 131, "vocab_size": 257 }),
    ];
    for changes in &shapes {
        let model = Model::new(&changes.to_string(), changes);
        let decoder = model.load(DType::F64);
        for length in [1, 2, 9] {
            let rows = model.rows(&[length]);
            let expected = tensor(reference::logits(&model, &rows[0]).concat(), &[length, model.config.vocab]);
            assert_close(&model.name, DType::F64, &logits(&decoder, &rows).get(0).unwrap(), &expected);
            let single = model.load(DType::F32);
            assert_close(&model.name, DType::F32, &logits(&single, &rows).get(0).unwrap(), &expected);
            let (_, sums) = backward(&decoder, &tokens(&rows), &model.targets(&rows));
            assert_eq!(sums.gradients().len(), decoder.parameters().len(), "{}", model.name);
            assert!(sums.gradients().values().flat_map(numbers).all(f64::is_finite), "{}", model.name);
        }
    }
}

/// 10,000 tokens: in pieces, through the cache, the last logits are those of one piece.
#[test]
fn a_long_prompt_is_the_same_in_one_piece_and_in_many() {
    const LENGTH: usize = 10_000;
    let changes = json!({
        "hidden_size": 4, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 4, "vocab_size": 17,
        "num_hidden_layers": 1, "max_position_embeddings": 16_384, "rope_theta": 1e6,
    });
    let model = Model::new("a context of 16,384", &changes);
    let decoder = model.load(DType::F32);
    let ids = model.rows(&[LENGTH]).remove(0);
    let ctx = Context::inference();
    let expected = decoder.next_token_logits(&ctx, &tokens(std::slice::from_ref(&ids)), None).unwrap();
    assert!(numbers(&expected).into_iter().all(f64::is_finite));
    let mut cache = decoder.cache(1, LENGTH).unwrap();
    let mut found = None;
    for (piece, start) in ids.chunks(3_001).zip((0..).step_by(3_001)) {
        let piece = Tokens::new(&[piece], vec![start], &Device::Cpu).unwrap();
        found = Some(decoder.next_token_logits(&ctx, &piece, Some(&mut cache)).unwrap());
    }
    assert_close(&model.name, DType::F32, &found.unwrap(), &expected);
}
