//! Sliding windows: which layers have one, and how long.
//!
//! Mistral has one window for all layers. Qwen2 and Qwen3 have one where `use_sliding_window` says so, in the layers that
//! `layer_types` names, or else from layer `max_window_layers` on. Llama has none. A window of 0 means none.

use super::Family;
use super::read::Settings;
use crate::error::Result;

/// Mistral's and Qwen's window where the key is absent; `null` means none.
const DEFAULT_WINDOW: usize = 4_096;
/// `max_window_layers` where the key is absent.
const DEFAULT_FULL_LAYERS: usize = 28;

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// The window of each layer, in tokens.
pub(super) fn read(settings: &Settings<'_>, family: Family, layers: usize) -> Result<Vec<Option<usize>>> {
    let window = window(settings, family)?;
    let sliding = match (layer_types(settings, layers)?, family) {
        (Some(types), Family::Qwen2 | Family::Qwen3) => types,
        (None, Family::Qwen2 | Family::Qwen3) => {
            let full = settings.count("max_window_layers")?.unwrap_or(DEFAULT_FULL_LAYERS);
            (0..layers).map(|layer| window.is_some() && layer >= full).collect()
        }
        (Some(types), _) if types.iter().any(|&sliding| sliding != window.is_some()) => {
            let expected = if window.is_some() { SLIDING } else { FULL };
            return Err(settings.error("layer_types", format!("expected {expected} for every layer of this family")));
        }
        (_, _) => vec![window.is_some(); layers],
    };
    if window.is_none() && sliding.contains(&true) {
        return Err(settings.error("layer_types", format!("{SLIDING} needs a sliding_window that is switched on")));
    }
    Ok(sliding.into_iter().map(|sliding| window.filter(|_| sliding)).collect())
}

/// The one length that all windows of a model have.
fn window(settings: &Settings<'_>, family: Family) -> Result<Option<usize>> {
    let default = (!settings.is_null("sliding_window")).then_some(DEFAULT_WINDOW);
    let stated = settings.count("sliding_window")?;
    let switched_on = settings.flag("use_sliding_window")?;
    let window = match family {
        Family::Llama if stated.is_some_and(|window| window > 0) => {
            return Err(settings.error("sliding_window", "this family has none; expected null or 0"));
        }
        Family::Llama => None,
        Family::Mistral => stated.or(default),
        Family::Qwen2 | Family::Qwen3 if switched_on == Some(true) => stated.or(default),
        Family::Qwen2 | Family::Qwen3 => None,
    };
    Ok(window.filter(|&window| window > 0))
}

/// Per layer, whether it has a window.
fn layer_types(settings: &Settings<'_>, layers: usize) -> Result<Option<Vec<bool>>> {
    let Some(types) = settings.texts("layer_types")? else { return Ok(None) };
    if types.len() != layers {
        return Err(settings.error("layer_types", format!("expected {layers} entries, one per layer")));
    }
    let sliding = |kind| match kind {
        FULL => Ok(false),
        SLIDING => Ok(true),
        _ => Err(settings.error("layer_types", format!("{kind} is not supported; expected {FULL} or {SLIDING}"))),
    };
    types.into_iter().map(sliding).collect::<Result<_>>().map(Some)
}
