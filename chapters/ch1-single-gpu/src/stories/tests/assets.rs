//! The files under `assets/` are what the code makes. `UPDATE_EXPECT=1 cargo test -p ch1-single-gpu stories` writes
//! them anew after a change of the grammar (and then the bundled model has to be trained anew).

use std::path::PathBuf;

use super::super::tokenizer::{VOCABULARY, train};
use super::super::{END_OF_TEXT, corpus, story, tokens};
use super::{fresh_seed, words};

const SAMPLE_BYTES: usize = 100_000;

fn asset(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets")).join(name)
}

/// Compares `made` with the committed file, or writes it if that is asked for.
fn expect(name: &str, made: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(asset(name), made).unwrap();
    }
    let committed = std::fs::read_to_string(asset(name)).unwrap();
    assert!(committed == made, "assets/{name} is not what the code makes; UPDATE_EXPECT=1 writes it anew");
}

#[test]
fn the_committed_sample_is_what_the_grammar_tells() {
    expect("stories/sample.txt", &corpus(1, SAMPLE_BYTES));
}

#[test]
fn the_tokenizer_is_the_committed_one_and_the_same_each_time() {
    let first = train(1).unwrap().to_string(true).unwrap() + "\n";
    let second = train(1).unwrap().to_string(true).unwrap() + "\n";
    assert!(first == second, "two trainings gave two tokenizers");
    expect("stories-1.9m/tokenizer.json", &first);
}

#[test]
fn the_tokenizer_gives_every_text_back_and_knows_the_words_of_the_stories() {
    let tokenizer = train(1).unwrap();
    let seed = fresh_seed();
    assert_eq!(tokenizer.get_vocab_size(true), VOCABULARY);
    let (mut tokens, mut bytes) = (0, 0);
    for index in 0..2_000 {
        let text = story(seed, index);
        let encoding = tokenizer.encode(text.as_str(), false).unwrap();
        assert_eq!(tokenizer.decode(encoding.get_ids(), false).unwrap(), text, "seed {seed}, index {index}");
        tokens += encoding.len();
        bytes += text.len();
    }
    println!("{:.1} tokens per story, {:.2} bytes per token", tokens as f64 / 2000.0, bytes as f64 / tokens as f64);
    assert!(bytes as f64 > 3.4 * tokens as f64, "{bytes} bytes became {tokens} tokens, seed {seed}");
    let vocabulary = tokenizer.get_vocab(true);
    let (mut whole, mut all) = (0, 0);
    for index in 0..2_000 {
        let text = story(seed, index);
        whole += words(&text).filter(|word| vocabulary.contains_key(&format!("Ġ{word}"))).count();
        all += words(&text).count();
    }
    println!("{whole} of {all} words are one token");
    assert!(whole as f64 > 0.9 * all as f64, "{whole} of {all} words are one token, seed {seed}");
    for text in ["Größe, 猫 & \u{1F415}\n\ttab", "", " ", "UPPER case 0123"] {
        let encoding = tokenizer.encode(text, false).unwrap();
        assert_eq!(tokenizer.decode(encoding.get_ids(), false).unwrap(), text);
    }
    assert_eq!(tokenizer.encode("the dog", false).unwrap().get_tokens(), ["the", "Ġdog"]);
    assert_eq!(tokenizer.encode("the dog sat", true).unwrap().get_tokens(), [END_OF_TEXT, "the", "Ġdog", "Ġsat"]);
}

#[test]
fn between_two_stories_of_a_corpus_stands_one_token() {
    let tokenizer = train(1).unwrap();
    let ids = |text: &str| tokenizer.encode(text, false).unwrap().get_ids().to_vec();
    let seed = fresh_seed();
    let mut expected = Vec::new();
    let text = corpus(seed, 3_000);
    for (index, _) in text.matches(END_OF_TEXT).enumerate() {
        expected.extend(ids(&story(seed, index as u64)));
        expected.push(0);
    }
    assert_eq!(ids(&text), expected, "seed {seed}");
    let decoder = decoder::tokenizer::Tokenizer::from_file(&asset("stories-1.9m/tokenizer.json")).unwrap();
    expected.insert(0, 0);
    assert_eq!(tokens(&decoder, Some(0), seed, 0, expected.len()).unwrap(), expected, "the text's ids, seed {seed}");
}

#[test]
fn the_bundled_shape_has_at_most_1_9_million_parameters_and_splits_into_eight() {
    let config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(asset("stories-1.9m/config.json")).unwrap()).unwrap();
    let [hidden, feed_forward, layers, heads, kv_heads, head_dim, vocabulary] = [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
    ]
    .map(|key| config[key].as_u64().unwrap());
    let attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim;
    let layer = attention + 3 * hidden * feed_forward + 2 * hidden;
    let parameters = layers * layer + 2 * vocabulary * hidden + hidden;
    println!("{parameters} parameters");
    assert!(parameters <= 1_900_000, "{parameters} parameters");
    assert_eq!(vocabulary, VOCABULARY as u64);
    assert_eq!([hidden % 8, feed_forward % 8, layers % 8, heads % 8, vocabulary % 8], [0; 5]);
}
