//! A `tokenizer.json`, looked at before the `tokenizers` crate reads it.
//!
//! The crate panics on some broken files (a merge of tokens that are not there, a template with a token it does not
//! define), takes some unknown types for others, and says of the rest "data did not match any variant". What it would
//! stumble over is found here and named.

use std::collections::HashMap;

use serde_json::Value;

use super::problem;
use crate::Result;

/// What has to be known of the file besides what the crate makes of it.
pub(super) struct Checked {
    /// Added tokens with the ids that the file gives them.
    pub(super) added: Vec<(String, u32)>,
    /// The token that the post-processor puts in front of a text.
    pub(super) bos: Option<u32>,
}

/// The parts of a tokenizer, the name under which a `Sequence` lists its own parts, and the types that version 0.23
/// of the crate reads.
const PARTS: [(&str, &str, &[&str]); 5] = [
    ("model", "", &["BPE", "Unigram", "WordLevel", "WordPiece"]),
    (
        "normalizer",
        "normalizers",
        &[
            "BertNormalizer",
            "ByteLevel",
            "Lowercase",
            "NFC",
            "NFD",
            "NFKC",
            "NFKD",
            "Nmt",
            "Precompiled",
            "Prepend",
            "Replace",
            "Sequence",
            "Strip",
            "StripAccents",
        ],
    ),
    (
        "pre_tokenizer",
        "pretokenizers",
        &[
            "BertPreTokenizer",
            "ByteLevel",
            "CharDelimiterSplit",
            "Digits",
            "FixedLength",
            "Metaspace",
            "Punctuation",
            "Sequence",
            "Split",
            "UnicodeScripts",
            "Whitespace",
            "WhitespaceSplit",
        ],
    ),
    (
        "post_processor",
        "processors",
        &["BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"],
    ),
    (
        "decoder",
        "decoders",
        &[
            "BPEDecoder",
            "ByteFallback",
            "ByteLevel",
            "CTC",
            "Fuse",
            "Metaspace",
            "Replace",
            "Sequence",
            "Strip",
            "WordPiece",
        ],
    ),
];

/// Checks the file's contents.
pub(super) fn check(bytes: &[u8]) -> Result<Checked> {
    let root: Value = serde_json::from_slice(bytes).map_err(|error| {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        problem(format!("not valid JSON ({error}); it begins with {start:?}"))
    })?;
    if !root["model"].is_object() {
        return Err(problem("no \"model\" in it: this is not a tokenizer.json of the Hugging Face tokenizers library"));
    }
    for (part, list, known) in PARTS {
        check_type(part, list, known, &root[part])?;
    }
    check_model(&root["model"])?;
    check_templates(&root["post_processor"])?;
    Ok(Checked { added: added_tokens(&root["added_tokens"])?, bos: first_token(&root["post_processor"]) })
}

/// Refuses a type that the crate does not know, also inside a `Sequence`. Old files have no type: the crate guesses it.
fn check_type(part: &str, list: &str, known: &[&str], value: &Value) -> Result<()> {
    if let Some(kind) = value["type"].as_str()
        && !known.contains(&kind)
    {
        return Err(problem(format!("{part} of type {kind:?} is not supported; supported: {}", known.join(", "))));
    }
    if part == "decoder" && value["type"] == "Strip" && value["stop"].as_u64().is_some_and(|stop| stop > 0) {
        return Err(problem(format!("decoder Strip with stop = {} is not supported; 0 is", value["stop"])));
    }
    value[list].as_array().into_iter().flatten().try_for_each(|inner| check_type(part, list, known, inner))
}

fn check_model(model: &Value) -> Result<()> {
    if let Some(dropout) = model["dropout"].as_f64().filter(|&dropout| dropout > 0.0) {
        return Err(problem(format!("model.dropout = {dropout} makes encoding random; set it to null")));
    }
    let (Some(vocab), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array()) else { return Ok(()) };
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("");
    for merge in merges {
        // Written as "a b" or as ["a", "b"].
        let pair = match merge {
            Value::String(merge) => merge.split_once(' '),
            pair => pair[0].as_str().zip(pair[1].as_str()),
        };
        let Some((left, right)) = pair else {
            // The heading of an old merges file, or something that the crate will name.
            continue;
        };
        check_merge(left, right, prefix, |token| vocab.contains_key(token))?;
    }
    Ok(())
}

/// Refuses a merge of which a part or the result is not in the vocabulary. `prefix` marks parts that continue a word.
pub(super) fn check_merge(left: &str, right: &str, prefix: &str, known: impl Fn(&str) -> bool) -> Result<()> {
    let Some(rest) = right.strip_prefix(prefix) else {
        return Err(problem(format!("the merge of {left:?} and {right:?}: the second does not begin with {prefix:?}")));
    };
    let merged = format!("{left}{rest}");
    match [left, right, &merged].into_iter().find(|token| !known(token)) {
        None => Ok(()),
        Some(missing) => {
            Err(problem(format!("the merge of {left:?} and {right:?} needs the token {missing:?}, which is not there")))
        }
    }
}

/// Refuses a template with a token that it does not define.
fn check_templates(processor: &Value) -> Result<()> {
    for inner in processor["processors"].as_array().into_iter().flatten() {
        check_templates(inner)?;
    }
    let defined = &processor["special_tokens"];
    let pieces = ["single", "pair"].into_iter().filter_map(|template| processor[template].as_array()).flatten();
    for token in pieces.filter_map(|piece| piece["SpecialToken"]["id"].as_str()) {
        if defined[token]["ids"].as_array().is_none_or(Vec::is_empty) {
            return Err(problem(format!(
                "post_processor uses the token {token:?}, but its special_tokens do not have it"
            )));
        }
    }
    Ok(())
}

/// The id of the token that a post-processor puts in front of a text.
pub(super) fn first_token(processor: &Value) -> Option<u32> {
    let id = match processor["type"].as_str()? {
        "Sequence" => return processor["processors"].as_array()?.iter().find_map(first_token),
        "TemplateProcessing" => {
            let token = processor["single"][0]["SpecialToken"]["id"].as_str()?;
            &processor["special_tokens"][token]["ids"][0]
        }
        "BertProcessing" | "RobertaProcessing" => &processor["cls"][1],
        _ => return None,
    };
    u32::try_from(id.as_u64()?).ok()
}

fn added_tokens(list: &Value) -> Result<Vec<(String, u32)>> {
    let mut seen = HashMap::new();
    for token in list.as_array().into_iter().flatten() {
        let content = token["content"].as_str().filter(|content| !content.is_empty());
        let id = token["id"].as_u64().and_then(|id| u32::try_from(id).ok());
        let (Some(content), Some(id)) = (content, id) else {
            return Err(problem(format!("an added token needs a content and an id, found {token}")));
        };
        seen.insert(content.to_owned(), id);
    }
    Ok(seen.into_iter().collect())
}
