//! Small tokenizers of every kind, as `tokenizer.json` values, made here.

use serde_json::{Value, json};

/// The visible characters of byte-level BPE, in the order of the bytes: an independent statement of GPT-2's rule.
pub(crate) fn byte_alphabet() -> Vec<char> {
    let mut next = 256_u32;
    (0..=255_u8)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                next += 1;
                char::from_u32(next - 1).unwrap()
            }
        })
        .collect()
}

fn special(id: usize, content: &str) -> Value {
    json!({
        "id": id, "content": content, "special": true, "normalized": false, "single_word": false, "lstrip": false,
        "rstrip": false,
    })
}

fn whole(model: Value, added: Vec<Value>) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null, "model": model,
    })
}

fn vocab<T: AsRef<str>>(tokens: &[T]) -> Value {
    tokens
        .iter()
        .enumerate()
        .map(|(id, token)| (token.as_ref().to_owned(), json!(id)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// GPT-2's kind: every byte, a few merges, two special tokens, and one that contains half a character.
pub(crate) fn byte_level() -> Value {
    let alphabet = byte_alphabet();
    let mut tokens: Vec<String> = alphabet.iter().map(char::to_string).collect();
    let show = |text: &str| text.bytes().map(|byte| alphabet[usize::from(byte)]).collect::<String>();
    let merges = [(" ", "t"), ("h", "e"), (" t", "he"), ("l", "l"), ("\u{e9}", "\u{e9}")];
    tokens.extend(merges.iter().map(|(left, right)| show(&format!("{left}{right}"))));
    // The first two bytes of an emoji, and the replacement character itself.
    tokens.push([0xf0, 0x9f].iter().map(|&byte: &usize| alphabet[byte]).collect());
    tokens.push(show("\u{fffd}"));
    tokens.push("<|end|>".to_owned());
    tokens.push("<｜wide mark｜>".to_owned());
    let (end, wide) = (tokens.len() - 2, tokens.len() - 1);
    let merges: Vec<_> = merges[..4].iter().map(|(left, right)| json!([show(left), show(right)])).collect();
    let model = json!({"type": "BPE", "vocab": vocab(&tokens), "merges": merges});
    let mut value = whole(model, vec![special(end, "<|end|>"), special(wide, "<｜wide mark｜>")]);
    value["pre_tokenizer"] =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    value["decoder"] = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    value
}

/// Llama 2's kind: SentencePiece BPE with byte fallback, bos in front.
pub(crate) fn sentence_piece() -> Value {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    tokens
        .extend(["▁", "a", "b", "t", "h", "e", "é", ")", "\n", "▁t", "he", "▁the", "▁▁", "▁a", ""].map(str::to_owned));
    let merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "▁"), ("▁", "a")];
    let merges: Vec<_> = merges.iter().map(|(left, right)| format!("{left} {right}")).collect();
    let model = json!({
        "type": "BPE", "vocab": vocab(&tokens), "merges": merges, "unk_token": "<unk>", "fuse_unk": true,
        "byte_fallback": true,
    });
    let mut value = whole(model, vec![special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")]);
    value["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]});
    value["post_processor"] = bos_template("<s>", 1);
    value["decoder"] = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]});
    value
}

/// A template that puts one token in front.
pub(crate) fn bos_template(token: &str, id: u32) -> Value {
    let bos = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |name| json!({"Sequence": {"id": name, "type_id": 0}});
    json!({
        "type": "TemplateProcessing", "single": [bos, text("A")], "pair": [bos, text("A"), bos, text("B")],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    })
}

/// Words and nothing else, with the given decoder.
pub(crate) fn words(decoder: Value) -> Value {
    let tokens =
        ["[UNK]", "the", "##re", "is", "a", "▁the", "▁", "▁▁a", "fox</w>", "</w>", ".", ")", "\n", "n't", "|", "é"];
    let model = json!({"type": "WordLevel", "vocab": vocab(&tokens), "unk_token": "[UNK]"});
    let mut value = whole(model, vec![special(0, "[UNK]")]);
    value["pre_tokenizer"] = json!({"type": "WhitespaceSplit"});
    value["decoder"] = decoder;
    value
}

/// Every kind, with its name.
pub(crate) fn all() -> Vec<(&'static str, Value)> {
    let metaspace = |scheme| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    vec![
        ("byte level", byte_level()),
        ("SentencePiece with byte fallback", sentence_piece()),
        ("no decoder", words(Value::Null)),
        ("metaspace", words(metaspace("always"))),
        ("metaspace, no space in front", words(metaspace("never"))),
        ("WordPiece", words(json!({"type": "WordPiece", "prefix": "##", "cleanup": true}))),
        ("BPE with suffix", words(json!({"type": "BPEDecoder", "suffix": "</w>"}))),
        ("CTC", words(json!({"type": "CTC", "pad_token": "[UNK]", "word_delimiter_token": "|", "cleanup": true}))),
        ("fuse", words(json!({"type": "Sequence", "decoders": [{"type": "Fuse"}]}))),
    ]
}
