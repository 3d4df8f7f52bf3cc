//! The rotary settings of a `config.json`, in any of its spellings.
//!
//! Old: `rope_theta` beside `rope_scaling` (`null`, or an object with `rope_type` or `type`). New: one object
//! `rope_parameters` that holds `rope_theta` too. Where a file has both, they must say the same.

use super::read::Settings;
use super::{Rope, RopeScaling};
use crate::error::Result;
use serde_json::Value;

const DEFAULT_THETA: f64 = 10_000.0;
const SUPPORTED: &str = "expected default, linear, llama3 or yarn";

/// Keys of a rotary object that say nothing about its scaling.
const COMMON: &[&str] =
    &["rope_type", "type", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings"];

/// Reads theta and scaling; `context` is the model's context length, which some scalings fall back on.
pub(super) fn read(settings: &Settings<'_>, context: usize) -> Result<Rope> {
    refuse_partial_rotation(settings)?;
    let mut rope_theta = theta(settings)?;
    let mut scaling = None;
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(block) = settings.object(key)?.filter(|block| block.entries().next().is_some()) else { continue };
        if block.entries().any(|(_, value)| value.is_object()) {
            return Err(
                settings.error(key, "rotary settings per layer type are not supported; expected one set for all")
            );
        }
        refuse_partial_rotation(&block)?;
        let block_theta = theta(&block)?;
        if let (Some(one), Some(other)) = (rope_theta, block_theta)
            && one != other
        {
            return Err(block.error("rope_theta", format!("contradicts another rope_theta = {one} in this file")));
        }
        rope_theta = rope_theta.or(block_theta);
        let original = original_context(settings, &block, context)?;
        let block_scaling = read_scaling(&block, original, context)?;
        if scaling.as_ref().is_some_and(|scaling| *scaling != block_scaling) {
            return Err(settings.error(key, "contradicts rope_scaling in this file; remove one of them"));
        }
        scaling = Some(block_scaling);
    }
    Ok(Rope { theta: rope_theta.unwrap_or(DEFAULT_THETA), scaling: scaling.unwrap_or(RopeScaling::None) })
}

fn theta(settings: &Settings<'_>) -> Result<Option<f64>> {
    settings.number("rope_theta", "above 1", |theta| theta > 1.0)
}

fn refuse_partial_rotation(settings: &Settings<'_>) -> Result<()> {
    match settings.positive("partial_rotary_factor")? {
        None | Some(1.0) => Ok(()),
        Some(_) => {
            Err(settings.error("partial_rotary_factor", "rotating a part of each head is not supported; expected 1"))
        }
    }
}

/// The context of the original training: from the object, or beside it, or the model's context.
fn original_context(settings: &Settings<'_>, block: &Settings<'_>, context: usize) -> Result<OriginalContext> {
    const KEY: &str = "original_max_position_embeddings";
    let (outside, inside) = (settings.size(KEY)?, block.size(KEY)?);
    if let (Some(outside), Some(inside)) = (outside, inside)
        && outside != inside
    {
        return Err(block.error(KEY, format!("contradicts {KEY} = {outside} beside it")));
    }
    let stated = inside.or(outside);
    Ok(OriginalContext { stated: stated.is_some(), tokens: stated.unwrap_or(context) })
}

#[derive(Clone, Copy)]
struct OriginalContext {
    /// Whether a key says so.
    stated: bool,
    tokens: usize,
}

fn read_scaling(block: &Settings<'_>, original: OriginalContext, context: usize) -> Result<RopeScaling> {
    match scaling_type(block)? {
        "default" => {
            only(block, &[])?;
            Ok(RopeScaling::None)
        }
        "linear" => {
            only(block, &["factor"])?;
            Ok(RopeScaling::Linear { factor: required(block, "factor", "of at least 1", |factor| factor >= 1.0)? })
        }
        "llama3" => read_llama3(block, original.tokens),
        "yarn" => read_yarn(block, original, context),
        _ => Err(block.error(type_key(block), format!("this scaling is not supported; {SUPPORTED}"))),
    }
}

/// The type's name; absent only where nothing else asks for a scaling.
fn scaling_type<'a>(block: &Settings<'a>) -> Result<&'a str> {
    match (block.text("rope_type")?, block.text("type")?) {
        (Some(new), Some(old)) if new != old => Err(block.error("type", format!("contradicts rope_type = {new}"))),
        (Some(name), _) | (None, Some(name)) => Ok(name),
        (None, None) if block.get("factor").is_some() => {
            Err(block.error("rope_type", format!("a factor needs a type; {SUPPORTED}")))
        }
        (None, None) => Ok("default"),
    }
}

fn type_key(block: &Settings<'_>) -> &'static str {
    if block.get("rope_type").is_some() { "rope_type" } else { "type" }
}

/// Refuses keys that this type of scaling does not have; a factor of 1 scales nothing.
fn only(block: &Settings<'_>, keys: &[&str]) -> Result<()> {
    let foreign = |&(key, value): &(&str, &Value)| {
        let idle = value.is_null() || (key == "factor" && value.as_f64() == Some(1.0));
        !idle && !COMMON.contains(&key) && !keys.contains(&key)
    };
    match block.entries().find(foreign) {
        Some((key, _)) => Err(block.error(key, "this type of rotary scaling has no such setting; remove it")),
        None => Ok(()),
    }
}

fn required(block: &Settings<'_>, key: &str, range: &str, legal: impl Fn(f64) -> bool) -> Result<f64> {
    block.number(key, range, legal)?.ok_or_else(|| block.error(key, format!("expected a number {range}")))
}

fn read_llama3(block: &Settings<'_>, original_context: usize) -> Result<RopeScaling> {
    only(block, &["factor", "low_freq_factor", "high_freq_factor"])?;
    let factor = required(block, "factor", "of at least 1", |factor| factor >= 1.0)?;
    let low_freq_factor = required(block, "low_freq_factor", "above 0", |low| low > 0.0)?;
    let above_low = format!("above low_freq_factor = {low_freq_factor}");
    let high_freq_factor = required(block, "high_freq_factor", &above_low, |high| high > low_freq_factor)?;
    Ok(RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context })
}

fn read_yarn(block: &Settings<'_>, original: OriginalContext, context: usize) -> Result<RopeScaling> {
    only(block, &["factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"])?;
    let factor = match block.number("factor", "of at least 1", |factor| factor >= 1.0)? {
        Some(factor) => factor,
        None if original.stated && original.tokens <= context => context as f64 / original.tokens as f64,
        None => {
            return Err(block.error("factor", "expected a number of at least 1, or original_max_position_embeddings"));
        }
    };
    let at_least_0 = |key| block.number(key, "of at least 0", |number| number >= 0.0);
    let (mscale, mscale_all_dim) = (at_least_0("mscale")?, at_least_0("mscale_all_dim")?);
    let attention_factor = block.positive("attention_factor")?.unwrap_or_else(|| match (mscale, mscale_all_dim) {
        // Zero counts as absent.
        (Some(mscale), Some(all)) if mscale > 0.0 && all > 0.0 => {
            yarn_factor(factor, mscale) / yarn_factor(factor, all)
        }
        _ => yarn_factor(factor, 1.0),
    });
    let beta_slow = block.positive("beta_slow")?.unwrap_or(1.0);
    let above_slow = format!("of at least beta_slow = {beta_slow}");
    let beta_fast = block.number("beta_fast", &above_slow, |fast| fast >= beta_slow)?.unwrap_or(32.0);
    if beta_fast < beta_slow {
        return Err(block.error("beta_slow", format!("expected at most beta_fast = {beta_fast}")));
    }
    let truncate = block.flag("truncate")?.unwrap_or(true);
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast,
        beta_slow,
        attention_factor,
        original_context: original.tokens,
        truncate,
    })
}

impl RopeScaling {
    /// What is wrong with the numbers, if anything; for scalings that did not come from a `config.json`.
    pub(super) fn problem(&self, head_dim: usize) -> Option<String> {
        let stretches = |factor: f64| factor >= 1.0 && factor.is_finite();
        let positive = |number: f64| number > 0.0 && number.is_finite();
        match self {
            Self::None => None,
            &Self::Linear { factor } => (!stretches(factor)).then(|| "expected a factor of at least 1".to_owned()),
            &Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                let ordered = positive(low_freq_factor) && high_freq_factor > low_freq_factor;
                (!stretches(factor) || !ordered || original_context == 0)
                    .then(|| "expected factor of at least 1, 0 < low < high, a context of at least 1".to_owned())
            }
            &Self::Yarn { factor, beta_fast, beta_slow, attention_factor, original_context, .. } => {
                let ordered = positive(beta_slow) && beta_fast >= beta_slow;
                (!stretches(factor) || !ordered || !positive(attention_factor) || original_context == 0).then(|| {
                    "expected factor of at least 1, 0 < slow ≤ fast, attention_factor above 0, a context of at least 1".to_owned()
                })
            }
            Self::Divisors { divisors } => {
                let legal = divisors.len() == head_dim / 2 && divisors.iter().all(|&divisor| positive(divisor));
                (!legal).then(|| format!("expected {} divisors above 0, half of the head's width", head_dim / 2))
            }
        }
    }
}

/// YaRN's factor on cos and sin for contexts `factor` times as long (Peng et al., section 3.4).
pub(super) fn yarn_factor(factor: f64, mscale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 }
}
