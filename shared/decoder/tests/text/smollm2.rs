//! A real vocabulary: SmolLM2-135M-Instruct, rebuilt from its GGUF file, against ids recorded from transformers.

use std::fs::File;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::Content;
use decoder::random::Rng;
use decoder::tokenizer::Tokenizer;
use serde_json::Value;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tokenizer of the downloaded model; `None`, said aloud, if it is not there.
fn tokenizer(test: &str) -> Option<Tokenizer> {
    let path = workspace().join("assets/downloads/smollm2-135m-instruct-q4_1.gguf");
    let Ok(mut file) = File::open(&path) else {
        eprintln!("{test}: not tested, assets/downloads/smollm2-135m-instruct-q4_1.gguf is not there");
        return None;
    };
    Some(Tokenizer::from_gguf(&Content::read(&mut file).unwrap().metadata).unwrap())
}

#[test]
fn ids_and_texts_of_recorded_strings_are_exact() {
    let Some(tokenizer) = tokenizer("recorded strings") else { return };
    let recorded = std::fs::read(workspace().join("tests/fixtures/smollm2/tokenizer_strings.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&recorded).unwrap();
    let cases = recorded["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 24);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        let tokens: Vec<String> = serde_json::from_value(case["tokens"].clone()).unwrap();
        assert_eq!(tokenizer.encode(text, true).unwrap(), ids, "{text:?}: no bos is added");
        assert_eq!(tokenizer.encode(text, false).unwrap(), ids, "{text:?}");
        assert_eq!(ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect::<Vec<_>>(), tokens, "{text:?}");
        let decoded = case["decoded"].as_str().unwrap();
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), decoded, "{text:?}");
        let mut stream = tokenizer.stream(false);
        let streamed: String = ids.iter().filter_map(|&id| stream.push(id).unwrap()).collect();
        assert_eq!(streamed + &stream.flush().unwrap(), decoded, "{text:?}, streamed");
    }
}

#[test]
fn every_id_and_random_sequences_stream_as_they_decode() {
    let Some(tokenizer) = tokenizer("streaming") else { return };
    let size = tokenizer.vocab_size();
    assert_eq!((size, tokenizer.bos(), tokenizer.adds_bos()), (49152, Some(1), false));
    tokenizer.check_vocab(49152).unwrap();
    assert_eq!((0..49152).filter(|&id| tokenizer.is_special(id)).collect::<Vec<_>>(), (0..17).collect::<Vec<_>>());
    let check = |ids: &[u32], what: &str| {
        let mut stream = tokenizer.stream(true);
        let streamed: String = ids.iter().filter_map(|&id| stream.push(id).unwrap()).collect();
        assert_eq!(streamed + &stream.flush().unwrap(), tokenizer.decode(ids, true).unwrap(), "{what}");
    };
    (0..size as u32).for_each(|id| check(&[id], &format!("id {id}")));
    let mut rng = Rng::new(23);
    for case in 0..500 {
        let ids: Vec<_> = (0..rng.below(200)).map(|_| rng.below(size) as u32).collect();
        check(&ids, &format!("case {case} of seed 23"));
        // Mostly single bytes.
        let ids: Vec<_> = (0..rng.below(200)).map(|_| 17 + rng.below(300) as u32).collect();
        check(&ids, &format!("bytes, case {case} of seed 23"));
    }
}
