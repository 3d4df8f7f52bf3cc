//! What is read from a `tokenizer.json`, and what is refused.

use decoder::tokenizer::Tokenizer;
use decoder::{Error, Result};
use serde_json::{Value, json};

use super::vocabularies::{self, bos_template};

fn load(value: &Value) -> Result<Tokenizer> {
    Tokenizer::from_bytes(value.to_string().as_bytes())
}

/// The message of the refusal.
fn refusal(value: &Value) -> String {
    load(value).expect_err("this file must be refused").to_string()
}

#[test]
fn padding_and_truncation_settings_change_no_ids() {
    let plain = vocabularies::byte_level();
    let mut trained = plain.clone();
    trained["truncation"] = json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    trained["padding"] = json!({
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "x",
    });
    let text = "the hell in the well";
    let expected = load(&plain).unwrap().encode(text, true).unwrap();
    assert!(expected.len() > 4 && expected.len() < 64);
    assert_eq!(load(&trained).unwrap().encode(text, true).unwrap(), expected);
}

#[test]
fn bos_is_added_once_and_only_when_asked_for() {
    let tokenizer = load(&vocabularies::sentence_piece()).unwrap();
    let encode = |text, add| tokenizer.encode(text, add).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.adds_bos()), (Some(1), true));
    let bare = encode("the", false);
    assert_eq!(encode("the", true), [&[1], &bare[..]].concat());
    assert_eq!(encode("<s>the", true), encode("<s>the", false), "the text has bos itself");
    assert_eq!(encode("<s>", true), [1]);
    assert_eq!(encode("", true), [1]);
    assert!(encode("", false).is_empty());
    // Two in the text are the text's own; where none is added, none is taken away.
    assert_eq!(encode("<s><s>", false), [1, 1]);
    let mut plain = vocabularies::sentence_piece();
    plain["post_processor"] = Value::Null;
    let plain = load(&plain).unwrap();
    assert_eq!((plain.bos(), plain.adds_bos()), (None, false));
    assert_eq!(plain.encode("<s><s>", true).unwrap(), [1, 1]);
}

#[test]
fn bos_is_found_in_every_kind_of_post_processor() {
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true});
    let sequence = json!({"type": "Sequence", "processors": [bytes, bos_template("<s>", 1)]});
    let roberta = json!({"type": "RobertaProcessing", "cls": ["<s>", 1], "sep": ["</s>", 2], "trim_offsets": true,
        "add_prefix_space": true});
    let mut ends_only = bos_template("</s>", 2);
    ends_only["single"] =
        json!([{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]);
    for (processor, bos) in [(bytes.clone(), None), (sequence, Some(1)), (roberta, Some(1)), (ends_only, None)] {
        let mut value = vocabularies::sentence_piece();
        value["post_processor"] = processor.clone();
        let tokenizer = load(&value).unwrap();
        assert_eq!(tokenizer.bos(), bos, "{processor}");
        assert_eq!(tokenizer.encode("a", true).unwrap().first() == Some(&1), bos.is_some(), "{processor}");
    }
}

#[test]
fn empty_texts_spaces_and_long_texts_are_encoded_and_come_back() {
    for value in [vocabularies::byte_level(), vocabularies::sentence_piece()] {
        let tokenizer = load(&value).unwrap();
        for text in ["".to_owned(), "   ".to_owned(), "a".repeat(10_000), "the é😀\n".repeat(1_250)] {
            let ids = tokenizer.encode(&text, true).unwrap();
            assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
        }
    }
}

#[test]
fn special_tokens_are_known_and_left_out_when_asked() {
    let tokenizer = load(&vocabularies::byte_level()).unwrap();
    let ids = tokenizer.encode("a<|end|>b", false).unwrap();
    assert_eq!(ids.len(), 3);
    assert!(tokenizer.is_special(ids[1]) && !tokenizer.is_special(ids[0]));
    assert_eq!(tokenizer.token(ids[1]).unwrap(), "<|end|>");
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "ab");
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), "a<|end|>b");
    assert_eq!(tokenizer.token(tokenizer.vocab_size() as u32), None);
}

#[test]
fn ids_beyond_the_model_are_refused_by_name_special_ones_first() {
    let tokenizer = load(&vocabularies::byte_level()).unwrap();
    let size = tokenizer.vocab_size();
    tokenizer.check_vocab(size).unwrap();
    tokenizer.check_vocab(size + 64).unwrap();
    let message = tokenizer.check_vocab(size - 1).unwrap_err().to_string();
    assert!(message.contains(&format!("\"<｜wide mark｜>\" = {}", size - 1)), "{message}");
    let message = tokenizer.check_vocab(100).unwrap_err().to_string();
    assert!(message.contains("the model has 100 tokens, but the tokenizer also has \"<|end|>\""), "{message}");
    assert!(message.contains("and 160 more"), "{message}");
}

#[test]
fn a_file_that_is_absent_or_no_tokenizer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    assert!(matches!(Tokenizer::from_file(&path), Err(Error::File { action: "read", .. })));
    for (contents, said) in [
        ("", "not valid JSON"),
        ("<!doctype html>", "begins with \"<!doctype html>\""),
        ("version https://git-lfs.github.com/spec/v1", "git-lfs"),
        ("[1, 2]", "no \"model\""),
        ("{\"model\": \"BPE\"}", "no \"model\""),
    ] {
        std::fs::write(&path, contents).unwrap();
        let message = Tokenizer::from_file(&path).unwrap_err().to_string();
        assert!(message.contains("tokenizer.json: ") && message.contains(said), "{contents}: {message}");
    }
    let whole = vocabularies::byte_level().to_string();
    std::fs::write(&path, &whole).unwrap();
    Tokenizer::from_file(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 100]).unwrap();
    assert!(Tokenizer::from_file(&path).unwrap_err().to_string().contains("not valid JSON"));
}

#[test]
fn unknown_types_are_named_at_every_place() {
    for (part, list) in [
        ("model", ""),
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("post_processor", "processors"),
        ("decoder", "decoders"),
    ] {
        let mut value = vocabularies::byte_level();
        // The fields of a type that the library knows: it would take this for that type.
        value[part]["type"] = json!("Novel");
        let message = refusal(&value);
        assert!(message.contains(&format!("{part} of type \"Novel\" is not supported; supported: ")), "{message}");
        if !list.is_empty() {
            value[part] = json!({"type": "Sequence", list: [{"type": "Novel"}]});
            assert!(refusal(&value).contains("type \"Novel\""), "{part}");
        }
    }
}

#[test]
fn files_on_which_the_library_panics_or_errs_in_silence_are_refused() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut value = vocabularies::sentence_piece();
        change(&mut value);
        refusal(&value)
    };
    let message = with(&|value| value["model"]["merges"] = json!(["▁the ▁the"]));
    assert!(message.contains("needs the token \"▁the▁the\", which is not there"), "{message}");
    let message = with(&|value| value["post_processor"]["special_tokens"] = json!({}));
    assert!(message.contains("post_processor uses the token \"<s>\""), "{message}");
    let message = with(&|value| value["model"]["dropout"] = json!(0.1));
    assert!(message.contains("model.dropout = 0.1"), "{message}");
    let message = with(&|value| value["decoder"] = json!({"type": "Strip", "content": " ", "start": 0, "stop": 1}));
    assert!(message.contains("stop = 1"), "{message}");
    let message = with(&|value| value["added_tokens"][2]["id"] = json!(7));
    assert!(message.contains("\"</s>\" has id 7, but its place gives it 2"), "{message}");
    let message = with(&|value| value["added_tokens"][2]["id"] = json!(-1));
    assert!(message.contains("needs a content and an id"), "{message}");
}
