//! Which sequences to compute on: `--prompt`, `--ids`.

use crate::batch::Batch;
use crate::loaded::Described;
use crate::{Error, Result};
use clap::Args;

/// Sequences as text or as token ids.
#[derive(Args, Clone, Debug, Default)]
pub struct BatchFlags {
    /// Text; may be given several times, for a batch
    #[arg(long, visible_alias = "text", value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Vec<String>,
    /// Token ids in place of text, as a JSON list of lists.
    #[arg(
        long,
        value_name = "JSON",
        help = "Token ids in place of text, as JSON: '[[1,2,3],[4,5,6]]'",
        conflicts_with = "prompt",
        allow_hyphen_values = true
    )]
    pub ids: Option<String>,
}

impl BatchFlags {
    /// The sequences, checked against the model; `default` if neither text nor ids were given. The tokenizer is only read for text.
    ///
    /// # Errors
    /// Text without tokens, ids that are no list of lists of ids, or what [`Batch::new`] refuses.
    pub fn batch(&self, default: &[&str], model: &Described) -> Result<Batch> {
        let Some(ids) = &self.ids else {
            let default: Vec<String> = default.iter().copied().map(str::to_owned).collect();
            let texts = if self.prompt.is_empty() { &default } else { &self.prompt };
            let tokenizer = model.tokenizer()?;
            let encoded: Result<Vec<_>, _> = texts.iter().map(|text| tokenizer.encode(text, true)).collect();
            return Batch::new("--prompt", encoded?, &model.config);
        };
        let sequences = serde_json::from_str(ids).map_err(|error| Error::Flag {
            flag: "--ids",
            found: shortened(ids),
            expected: format!("a JSON list of lists of token ids, such as '[[1,2,3],[4,5,6]]' ({error})"),
        })?;
        Batch::new("--ids", sequences, &model.config)
    }
}

/// The beginning of a text that may be long.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
