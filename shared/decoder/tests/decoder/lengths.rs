//! Lengths at the edges: of the context, of a window, of a block of queries, of a piece.

use super::feeding::feed;
use super::models::{Model, all, logits, tokens};
use super::reference;
use super::tolerance::{assert_close, tensor};
use candle_core::{DType, Device, Tensor};
use decoder::{Context, Error, Tokens};
use serde_json::json;

/// Queries that attention computes together on CPU.
const BLOCK: usize = 64;

fn expected(model: &Model, ids: &[u32]) -> Tensor {
    tensor(reference::logits(model, ids).concat(), &[ids.len(), model.config.vocab])
}

fn windowed(window: usize) -> Model {
    let changes = json!({
        "model_type": "mistral", "sliding_window": window, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 160,
    });
    Model::new(&format!("window {window}"), &changes)
}

#[test]
fn a_prompt_one_shorter_equal_or_one_longer_than_a_window_or_a_block_is_exact_in_any_pieces() {
    for window in [1, 3, BLOCK - 1, BLOCK, BLOCK + 1] {
        let model = windowed(window);
        let decoder = model.load(DType::F64);
        let around = |n: usize| [n.saturating_sub(1), n, n + 1];
        let mut lengths: Vec<usize> = [around(window), around(BLOCK), around(2 * BLOCK)].concat();
        lengths.retain(|&length| length > 0);
        for length in lengths {
            let ids = model.rows(&[length]);
            let expected = expected(&model, &ids[0]);
            let what = format!("{}, {length} tokens", model.name);
            assert_close(&what, DType::F64, &logits(&decoder, &ids).get(0).unwrap(), &expected);
            for piece in [window, BLOCK - 1, BLOCK, BLOCK + 1].into_iter().filter(|&piece| piece < length) {
                let mut plan = vec![piece; length / piece];
                plan.extend((!length.is_multiple_of(piece)).then_some(length % piece));
                let mut cache = decoder.cache(1, length).unwrap();
                let found = feed(&decoder, &mut cache, &ids, 0, &[plan]);
                assert_close(&format!("{what} in pieces of {piece}"), DType::F64, &found[0], &expected);
            }
        }
    }
}

#[test]
fn a_prompt_may_fill_the_context_and_not_exceed_it() {
    for model in all() {
        let decoder = model.load(DType::F64);
        let context = model.config.context;
        for length in [context - 1, context] {
            let ids = model.rows(&[length]);
            let found = logits(&decoder, &ids).get(0).unwrap();
            let what = format!("{}, {length} tokens", model.name);
            assert_close(&what, DType::F64, &found, &expected(&model, &ids[0]));
            let mut cache = decoder.cache(1, context).unwrap();
            let found = feed(&decoder, &mut cache, &ids, 0, &[vec![length - 1, 1]]);
            assert_close(&what, DType::F64, &found[0], &expected(&model, &ids[0]));
        }
        let full = |error: &Error| matches!(error, Error::ContextLength { needed, available } if *needed == context + 1 && *available == context);
        let error = decoder.logits(&Context::inference(), &tokens(&model.rows(&[context + 1])), None).unwrap_err();
        assert!(full(&error), "{}: {error}", model.name);
        let error = decoder.cache(1, context + 1).unwrap_err();
        assert!(full(&error), "{}: {error}", model.name);
        let mut cache = decoder.cache(1, context).unwrap();
        let past = Tokens::new(&[&[0]], vec![context], &Device::Cpu).unwrap();
        let error = decoder.logits(&Context::inference(), &past, Some(&mut cache)).unwrap_err();
        assert!(full(&error), "{}: {error}", model.name);
    }
}
