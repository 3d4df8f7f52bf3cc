//! The tokens that begin and end a sequence.
//!
//! `generation_config.json` is asked first, then `config.json`, then the family's default: the first that names a token
//! decides, they are not united. That is what `transformers` does where the generation config names one; where it does
//! not, the model's config still knows.

use super::families::Defaults;
use super::read::Settings;
use crate::error::Result;

/// Beginning and ends of a sequence.
pub(super) struct SpecialTokens {
    pub(super) bos: Option<u32>,
    pub(super) eos: Vec<u32>,
}

/// Reads `bos_token_id` and `eos_token_id`, a number or a list each.
pub(super) fn read(
    model: &Settings<'_>,
    generation: Option<&Settings<'_>>,
    defaults: &Defaults,
    vocab: usize,
) -> Result<SpecialTokens> {
    let sources = [generation, Some(model)];
    let first = |key: &str, default: Option<u32>| -> Result<Vec<u32>> {
        for settings in sources.into_iter().flatten() {
            if let Some(ids) = in_vocabulary(settings, key, vocab)? {
                return Ok(ids);
            }
        }
        let silent = !model.is_null(key);
        Ok(default.filter(|&id| silent && (id as usize) < vocab).into_iter().collect())
    };
    let bos = first("bos_token_id", defaults.bos)?;
    if bos.len() > 1 {
        let settings = generation.filter(|settings| settings.get("bos_token_id").is_some()).unwrap_or(model);
        return Err(settings.error("bos_token_id", "expected one token id"));
    }
    Ok(SpecialTokens { bos: bos.first().copied(), eos: first("eos_token_id", defaults.eos)? })
}

/// The ids under `key`, without repetitions.
pub(super) fn in_vocabulary(settings: &Settings<'_>, key: &str, vocab: usize) -> Result<Option<Vec<u32>>> {
    let Some(ids) = settings.token_ids(key)? else { return Ok(None) };
    let mut distinct = Vec::with_capacity(ids.len());
    for id in ids {
        if id as usize >= vocab {
            return Err(settings.error(key, format!("token {id} is outside the vocabulary of {vocab} tokens")));
        }
        if !distinct.contains(&id) {
            distinct.push(id);
        }
    }
    Ok(Some(distinct))
}
