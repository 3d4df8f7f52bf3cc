//! A tokenizer from the metadata of a GGUF file.
//!
//! Keys `tokenizer.ggml.…`, as in the GGUF specification: `model` (`gpt2` is byte-level BPE), `pre` (the family, see
//! `split`), `tokens`, `token_type`, `merges`, `bos_token_id`, `eos_token_id`, `add_bos_token`, `add_eos_token`.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use serde_json::json;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::{AddedToken, PostProcessorWrapper};

use super::{json, problem, split};
use crate::Result;

/// The tokenizer and what it does not say itself.
pub(super) struct Rebuilt {
    pub(super) tokenizer: tokenizers::Tokenizer,
    /// The declared bos.
    pub(super) bos: Option<u32>,
    /// The same, if it is put in front of a text.
    pub(super) added_bos: Option<u32>,
}

/// The kinds of tokens, `tokenizer.ggml.token_type`. Others are plain text.
mod token_type {
    pub(super) const UNKNOWN: i64 = 2;
    /// Found in a text, but left out of decoded text if that is asked for.
    pub(super) const CONTROL: i64 = 3;
    /// Found in a text, and part of decoded text.
    pub(super) const USER_DEFINED: i64 = 4;
    /// Fills the vocabulary up; never found in a text.
    pub(super) const UNUSED: i64 = 5;
}

pub(super) fn rebuild(metadata: &HashMap<String, Value>) -> Result<Rebuilt> {
    let metadata = Metadata(metadata);
    check_model(metadata)?;
    let Some(pre) = metadata.text("pre")? else {
        return Err(problem(
            "no tokenizer.ggml.pre: how the text is split is not known; give the model's tokenizer.json",
        ));
    };
    let family = split::family(pre)?;
    let tokens = metadata.texts("tokens")?.ok_or_else(|| problem("no tokenizer.ggml.tokens"))?;
    let types = metadata.types(tokens.len())?;
    let bpe = byte_pairs(metadata, &tokens, &types, family.ignore_merges)?;

    let mut tokenizer = tokenizers::Tokenizer::new(bpe);
    tokenizer.with_normalizer(family.normalizer).map_err(problem)?;
    tokenizer.with_pre_tokenizer(Some(family.pre_tokenizer));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    tokenizer.add_tokens(added_tokens(&tokens, &types)).map_err(problem)?;

    let bos = metadata.token("bos_token_id", &tokens)?;
    let eos = metadata.token("eos_token_id", &tokens)?;
    let adds_bos = metadata.flag("add_bos_token")?.unwrap_or(family.adds_bos);
    let adds_eos = metadata.flag("add_eos_token")?.unwrap_or(false);
    let first = added("bos", adds_bos, bos)?;
    let last = added("eos", adds_eos, eos)?;
    if first.is_some() || last.is_some() {
        tokenizer.with_post_processor(Some(template(first, last)?));
    }
    Ok(Rebuilt { tokenizer, bos: bos.map(|(id, _)| id), added_bos: first.map(|(id, _)| id) })
}

fn check_model(metadata: Metadata<'_>) -> Result<()> {
    let advice = "give the model's tokenizer.json";
    match metadata.text("model")? {
        Some("gpt2") => Ok(()),
        Some("llama") => Err(problem(format!(
            "tokenizer.ggml.model = \"llama\": SentencePiece cannot be rebuilt exactly from a GGUF file; {advice}"
        ))),
        Some(other) => {
            Err(problem(format!("tokenizer.ggml.model = {other:?}: only \"gpt2\" can be rebuilt; {advice}")))
        }
        None => Err(problem(format!("no tokenizer.ggml.model: this GGUF file has no tokenizer; {advice}"))),
    }
}

/// The BPE model. Tokens that only fill up the vocabulary are left out.
fn byte_pairs(metadata: Metadata<'_>, tokens: &[&str], types: &[i64], ignore_merges: bool) -> Result<BPE> {
    let mut vocab = Vocab::with_capacity(tokens.len());
    for ((id, token), &kind) in (0_u32..).zip(tokens).zip(types) {
        if kind == token_type::UNUSED {
            continue;
        }
        if let Some(other) = vocab.insert((*token).to_owned(), id) {
            return Err(problem(format!("tokenizer.ggml.tokens has {token:?} twice, as {other} and {id}")));
        }
    }
    let merges = metadata.texts("merges")?.ok_or_else(|| problem("no tokenizer.ggml.merges"))?;
    let mut pairs = Vec::with_capacity(merges.len());
    for merge in merges {
        let Some((left, right)) = merge.split_once(' ') else {
            return Err(problem(format!(
                "tokenizer.ggml.merges has {merge:?}; expected two tokens with a space between"
            )));
        };
        json::check_merge(left, right, "", |token| vocab.contains_key(token))?;
        pairs.push((left.to_owned(), right.to_owned()));
    }
    BPE::builder().vocab_and_merges(vocab, pairs).ignore_merges(ignore_merges).build().map_err(problem)
}

/// The tokens that are found in a text before it is cut.
fn added_tokens(tokens: &[&str], types: &[i64]) -> Vec<AddedToken> {
    let special = |kind| matches!(kind, token_type::UNKNOWN | token_type::CONTROL);
    let added = tokens.iter().zip(types).filter(|&(_, &kind)| special(kind) || kind == token_type::USER_DEFINED);
    added.map(|(token, &kind)| AddedToken::from(*token, special(kind)).normalized(false)).collect()
}

/// A token that is to be added to each text must be there.
fn added<'a>(name: &str, adds: bool, token: Option<(u32, &'a str)>) -> Result<Option<(u32, &'a str)>> {
    if adds && token.is_none() {
        return Err(problem(format!(
            "a text of this model begins or ends with {name}, but there is no tokenizer.ggml.{name}_token_id"
        )));
    }
    Ok(token.filter(|_| adds))
}

/// The post-processor that puts tokens around a text.
fn template(first: Option<(u32, &str)>, last: Option<(u32, &str)>) -> Result<PostProcessorWrapper> {
    let special = |(_, token): (u32, &str)| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let around = |text: &str| {
        let text = json!({"Sequence": {"id": text, "type_id": 0}});
        first.map(special).into_iter().chain([text]).chain(last.map(special)).collect::<Vec<_>>()
    };
    let defined = first.into_iter().chain(last);
    let defined = defined.map(|(id, token)| (token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]})));
    let pair = [around("A"), around("B")].concat();
    serde_json::from_value(json!({
        "type": "TemplateProcessing",
        "single": around("A"),
        "pair": pair,
        "special_tokens": defined.collect::<serde_json::Map<_, _>>(),
    }))
    .map_err(problem)
}

/// Typed access to the keys of `tokenizer.ggml`.
#[derive(Clone, Copy)]
struct Metadata<'a>(&'a HashMap<String, Value>);

impl<'a> Metadata<'a> {
    /// The value of a key read by `read`, an error that names the key if it is of another kind.
    fn get<T>(self, key: &str, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.0.get(&format!("tokenizer.ggml.{key}")) else { return Ok(None) };
        let kind = value.value_type();
        let wrong = || problem(format!("tokenizer.ggml.{key}: expected {expected}, found {kind:?}"));
        read(value).map(Some).ok_or_else(wrong)
    }

    fn text(self, key: &str) -> Result<Option<&'a str>> {
        self.get(key, "a text", text)
    }

    fn texts(self, key: &str) -> Result<Option<Vec<&'a str>>> {
        self.get(key, "a list of texts", |value| list(value)?.iter().map(text).collect())
    }

    fn flag(self, key: &str) -> Result<Option<bool>> {
        self.get(key, "true or false", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A token by the key of its id.
    fn token(self, key: &str, tokens: &[&'a str]) -> Result<Option<(u32, &'a str)>> {
        let Some(id) = self.get(key, "a whole number", integer)? else { return Ok(None) };
        let token = usize::try_from(id).ok().and_then(|id| tokens.get(id));
        match (u32::try_from(id), token) {
            (Ok(id), Some(token)) => Ok(Some((id, token))),
            _ => Err(problem(format!("tokenizer.ggml.{key} = {id}, but there are {} tokens", tokens.len()))),
        }
    }

    /// One type for each token; all plain if the file does not say.
    fn types(self, tokens: usize) -> Result<Vec<i64>> {
        let types =
            self.get("token_type", "a list of whole numbers", |value| list(value)?.iter().map(integer).collect());
        let types: Vec<i64> = types?.unwrap_or_else(|| vec![1; tokens]);
        if types.len() != tokens {
            let found = types.len();
            return Err(problem(format!("tokenizer.ggml.token_type has {found} entries for {tokens} tokens")));
        }
        Ok(types)
    }
}

fn text(value: &Value) -> Option<&str> {
    if let Value::String(text) = value { Some(text) } else { None }
}

fn list(value: &Value) -> Option<&[Value]> {
    if let Value::Array(list) = value { Some(list) } else { None }
}

/// A whole number of any width.
fn integer(value: &Value) -> Option<i64> {
    match *value {
        Value::U8(number) => Some(number.into()),
        Value::I8(number) => Some(number.into()),
        Value::U16(number) => Some(number.into()),
        Value::I16(number) => Some(number.into()),
        Value::U32(number) => Some(number.into()),
        Value::I32(number) => Some(number.into()),
        Value::U64(number) => number.try_into().ok(),
        Value::I64(number) => Some(number),
        _ => None,
    }
}
