//! Tokenizers rebuilt from GGUF metadata.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use decoder::random::Rng;
use decoder::tokenizer::Tokenizer;
use serde_json::json;

use super::vocabularies::{self, byte_alphabet};

type Metadata = HashMap<String, Value>;

fn texts<T: AsRef<str>>(texts: &[T]) -> Value {
    Value::Array(texts.iter().map(|text| Value::String(text.as_ref().to_owned())).collect())
}

/// All bytes, a few merges that go across spaces and digits, control tokens 0 and 1, a user-defined and an unused
/// token.
fn metadata(pre: &str) -> Metadata {
    let merges = ["1 2", "12 3", "Ġ 1", "Ġ t", "h e", "Ġt he", "' s", "' S", "! !", "Ġ Ġ", "Ã ©", "! a", "Ċ Ċ"];
    let mut tokens = vec!["<|begin:$A|>".to_owned(), "<|end|>".to_owned()];
    tokens.extend(byte_alphabet().iter().map(char::to_string));
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let mut types = vec![1; tokens.len()];
    types[..2].fill(3);
    tokens.extend(["<tool>", "Ġ123x", "PAD"].map(str::to_owned));
    types.extend([4, 1, 5]);
    let key = |key: &str| format!("tokenizer.ggml.{key}");
    HashMap::from([
        (key("model"), Value::String("gpt2".to_owned())),
        (key("pre"), Value::String(pre.to_owned())),
        (key("tokens"), texts(&tokens)),
        (key("token_type"), Value::Array(types.into_iter().map(Value::I32).collect())),
        (key("merges"), texts(&merges)),
        (key("bos_token_id"), Value::U32(0)),
        (key("eos_token_id"), Value::U32(1)),
    ])
}

fn tokens(pre: &str, text: &str) -> Vec<String> {
    let tokenizer = Tokenizer::from_gguf(&metadata(pre)).unwrap();
    let ids = tokenizer.encode(text, false).unwrap();
    ids.into_iter().map(|id| tokenizer.token(id).unwrap()).collect()
}

#[test]
fn each_family_cuts_texts_in_its_own_way() {
    // Digits one by one, in threes, or all together; and whether a space goes with them.
    for (pre, digits, spaced) in [
        ("smollm", &["1", "2", "3", "4"][..], &["Ġ", "1"][..]),
        ("starcoder", &["1", "2", "3", "4"], &["Ġ", "1"]),
        ("refact", &["1", "2", "3", "4"], &["Ġ", "1"]),
        ("qwen2", &["1", "2", "3", "4"], &["Ġ", "1"]),
        ("llama-bpe", &["123", "4"], &["Ġ", "1"]),
        ("gpt-2", &["123", "4"], &["Ġ1"]),
        ("default", &["123", "4"], &["Ġ", "1"]),
    ] {
        assert_eq!(tokens(pre, "1234"), digits, "{pre}");
        assert_eq!(tokens(pre, " 1"), spaced, "{pre}");
    }
    // Contractions in capitals are one word only in the newer families.
    for (pre, expected) in
        [("gpt-2", ["a", "'", "S"].to_vec()), ("qwen2", ["a", "'S"].to_vec()), ("llama3", ["a", "'S"].to_vec())]
    {
        assert_eq!(tokens(pre, "a'S"), expected, "{pre}");
    }
    // A mark leads the word that follows only in the newer families; `default` cuts it off.
    for (pre, expected) in
        [("gpt-2", vec!["!", "a"]), ("smollm", vec!["!", "a"]), ("qwen2", vec!["!a"]), ("default", vec!["!", "a"])]
    {
        assert_eq!(tokens(pre, "!a"), expected, "{pre}");
    }
    // Qwen normalises to composed characters first.
    assert_eq!(tokens("qwen2", "e\u{301}"), ["Ã©"]);
    assert_eq!(tokens("smollm", "e\u{301}"), ["e", "Ì", "ģ"]);
    // Llama 3 takes a word that is a token as it is, even if no merges lead to it.
    for (pre, count) in [("llama-bpe", 1), ("smollm", 4)] {
        let mut metadata = metadata(pre);
        metadata.insert("tokenizer.ggml.merges".to_owned(), texts::<&str>(&[]));
        let ids = Tokenizer::from_gguf(&metadata).unwrap().encode(" the", false).unwrap();
        assert_eq!(ids.len(), count, "{pre}: {ids:?}");
    }
}

#[test]
fn a_rebuilt_tokenizer_equals_the_tokenizer_json_of_its_family() {
    let rebuilt = Tokenizer::from_gguf(&metadata("gpt-2")).unwrap();
    let Value::Array(merges) = &metadata("")["tokenizer.ggml.merges"] else { panic!("a list") };
    let mut value = vocabularies::byte_level();
    let vocab: serde_json::Map<_, _> =
        (0..rebuilt.vocab_size() as u32).filter_map(|id| Some((rebuilt.token(id)?, json!(id)))).collect();
    let merges: Vec<_> = merges.iter().map(|merge| json!(merge.to_string().unwrap())).collect();
    value["model"] = json!({"type": "BPE", "vocab": vocab, "merges": merges});
    value["added_tokens"] = json!([]);
    let library = tokenizers::Tokenizer::from_bytes(value.to_string()).unwrap();
    let mut rng = Rng::new(17);
    let parts = ["the", " ", "1", "23", "'s", "!", "é", "e\u{301}", "\n", "😀", "\t", "S", "he", "\u{a0}"];
    for case in 0..500 {
        let text: String = (0..rng.below(30)).map(|_| parts[rng.below(parts.len())]).collect();
        let expected = library.encode(text.as_str(), false).unwrap().get_ids().to_vec();
        let ids = rebuilt.encode(&text, false).unwrap();
        assert_eq!(ids, expected, "case {case} of seed 17: {text:?}");
        assert_eq!(rebuilt.decode(&ids, false).unwrap(), text, "case {case} of seed 17");
    }
}

#[test]
fn control_tokens_are_special_and_user_defined_ones_are_text() {
    let tokenizer = Tokenizer::from_gguf(&metadata("smollm")).unwrap();
    let ids = tokenizer.encode("a<|end|><tool>PAD", false).unwrap();
    let tool = ids[2];
    assert_eq!((ids[1], tokenizer.token(tool).unwrap().as_str()), (1, "<tool>"));
    assert_eq!(ids.len(), 3 + 3, "an unused token is not found in a text: {ids:?}");
    // Not even in the family that takes a word that is a token as it is.
    assert_eq!(tokens("llama-bpe", "PAD"), ["P", "A", "D"]);
    assert!(tokenizer.is_special(0) && tokenizer.is_special(1) && !tokenizer.is_special(tool));
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "a<tool>PAD");
}

#[test]
fn bos_and_eos_are_added_as_the_file_or_the_family_says() {
    let encode = |pre, flags: &[(&str, bool)]| {
        let mut metadata = metadata(pre);
        for (key, flag) in flags {
            metadata.insert(format!("tokenizer.ggml.{key}"), Value::Bool(*flag));
        }
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
        assert_eq!(tokenizer.bos(), Some(0), "declared, whether added or not");
        tokenizer.encode("a", true).unwrap().into_iter().map(|id| id.min(2)).collect::<Vec<_>>()
    };
    assert_eq!(encode("smollm", &[]), [2]);
    assert_eq!(encode("smollm", &[("add_bos_token", true)]), [0, 2]);
    assert_eq!(encode("smollm", &[("add_bos_token", true), ("add_eos_token", true)]), [0, 2, 1]);
    assert_eq!(encode("llama-bpe", &[]), [0, 2], "Llama 3 files do not say, but need it");
    assert_eq!(encode("llama-bpe", &[("add_bos_token", false)]), [2]);
    let tokenizer = Tokenizer::from_gguf(&metadata("llama-bpe")).unwrap();
    assert_eq!(tokenizer.encode("<|begin:$A|>a", true).unwrap().iter().filter(|&&id| id == 0).count(), 1);
}

#[test]
fn metadata_that_cannot_be_rebuilt_exactly_is_refused_with_advice() {
    let cases: [(&str, Option<Value>, &str); 11] = [
        ("pre", Some(Value::String("tekken".to_owned())), "tokenizer.ggml.pre = \"tekken\""),
        ("pre", None, "no tokenizer.ggml.pre"),
        ("model", Some(Value::String("llama".to_owned())), "give the model's tokenizer.json"),
        ("model", Some(Value::String("t5".to_owned())), "tokenizer.ggml.model = \"t5\""),
        ("model", None, "no tokenizer.ggml.model"),
        ("tokens", None, "no tokenizer.ggml.tokens"),
        ("tokens", Some(Value::U32(3)), "tokenizer.ggml.tokens: expected a list of texts, found U32"),
        ("token_type", Some(Value::Array(vec![Value::I32(1)])), "has 1 entries for"),
        ("merges", Some(texts(&["Ġthe Ġthe"])), "needs the token \"ĠtheĠthe\""),
        ("merges", Some(texts(&["Ġthe"])), "expected two tokens with a space between"),
        ("bos_token_id", Some(Value::U32(4000)), "tokenizer.ggml.bos_token_id = 4000, but there are"),
    ];
    for (key, value, said) in cases {
        let mut metadata = metadata("smollm");
        let key = format!("tokenizer.ggml.{key}");
        match value {
            Some(value) => metadata.insert(key, value),
            None => metadata.remove(&key),
        };
        let message = Tokenizer::from_gguf(&metadata).unwrap_err().to_string();
        assert!(message.contains(said), "expected {said:?} in {message:?}");
    }
    let mut twice = metadata("smollm");
    if let Some(Value::Array(tokens)) = twice.get_mut("tokenizer.ggml.tokens") {
        tokens[1] = tokens[0].clone();
    }
    assert!(Tokenizer::from_gguf(&twice).unwrap_err().to_string().contains("twice, as 0 and 1"));
    let mut no_bos = metadata("llama-bpe");
    no_bos.remove("tokenizer.ggml.bos_token_id");
    assert!(Tokenizer::from_gguf(&no_bos).unwrap_err().to_string().contains("no tokenizer.ggml.bos_token_id"));
}
