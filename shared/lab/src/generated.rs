//! What every chapter's `generate` reads and prints: prompts in, one document per prompt out.

use crate::numbers;
use decoder::Error;
use decoder::generation::Generated;
use decoder::tokenizer::Tokenizer;
use serde::Serialize;
use std::io::{self, Write};

/// Prompts as text and as ids, checked against the model's context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompts {
    /// As they were given.
    pub texts: Vec<String>,
    /// As the model reads them.
    pub ids: Vec<Vec<u32>>,
}

/// The document of one prompt; a batch is a list of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    /// What the model read.
    pub prompt_ids: Vec<u32>,
    /// What it wrote, an end-of-sequence token included.
    pub ids: Vec<u32>,
    /// The same as text, special tokens left out.
    pub text: String,
    /// To the first token of every prompt of the batch.
    pub prefill_seconds: f64,
    /// From there to the last token.
    pub decode_seconds: f64,
}

impl Prompts {
    /// Encodes `texts`, each of which is continued by up to `max_tokens`.
    ///
    /// # Errors
    /// A prompt and its continuation exceed `context` ([`Error::ContextLength`]), or text cannot be encoded.
    pub fn new(texts: Vec<String>, tokenizer: &Tokenizer, max_tokens: usize, context: usize) -> decoder::Result<Self> {
        let ids = texts.iter().map(|text| tokenizer.encode(text, true)).collect::<Result<Vec<_>, _>>()?;
        let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
        let needed = longest.saturating_add(max_tokens);
        if needed > context {
            return Err(Error::ContextLength { needed, available: context });
        }
        Ok(Self { texts, ids })
    }

    /// Tokens of all prompts.
    pub fn tokens(&self) -> usize {
        self.ids.iter().map(Vec::len).sum()
    }

    /// One document per prompt.
    ///
    /// # Errors
    /// Ids that the tokenizer does not know.
    pub fn documents(&self, tokenizer: &Tokenizer, generated: &Generated) -> decoder::Result<Vec<Document>> {
        let document = |(prompt, ids): (&Vec<u32>, &Vec<u32>)| {
            Ok(Document {
                prompt_ids: prompt.clone(),
                ids: ids.clone(),
                text: tokenizer.decode(ids, true)?,
                prefill_seconds: generated.prefill.as_secs_f64(),
                decode_seconds: generated.decode.as_secs_f64(),
            })
        };
        self.ids.iter().zip(&generated.ids).map(document).collect()
    }

    /// Each prompt with its continuation, one after the other.
    ///
    /// # Errors
    /// Ids that the tokenizer does not know; `out` cannot be written.
    pub fn write(&self, out: &mut impl Write, tokenizer: &Tokenizer, generated: &Generated) -> anyhow::Result<()> {
        for (prompt, ids) in self.texts.iter().zip(&generated.ids) {
            writeln!(out, "{prompt}{}", tokenizer.decode(ids, true)?)?;
        }
        Ok(())
    }

    /// The figures, on stderr: the text stays clean on stdout.
    pub fn report(&self, generated: &Generated) {
        let prompt_tokens = self.tokens();
        let seconds = generated.prefill.as_secs_f64();
        let prefill = format!(
            "prefill: {prompt_tokens} tokens, first token after {} ({})",
            numbers::seconds(seconds),
            numbers::rate(prompt_tokens as f64 / seconds, "tokens")
        );
        let decode = match generated.decode_rate() {
            Some(rate) => format!("decode: {} tokens, {}", generated.decoded(), numbers::rate(rate, "tokens")),
            None => "decode: no step".into(),
        };
        // Figures are not worth failing for.
        let _ = writeln!(io::stderr(), "{prefill}\n{decode}");
    }
}
