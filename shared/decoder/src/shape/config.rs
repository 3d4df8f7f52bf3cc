//! The shape of a loaded model: from a [`Config`].

use super::model::{Attention, FeedForward, Layers, Matrices, Mlp, ModelShape, Norm, QkNorm, Size};
use crate::config::{self, Config};
use crate::error::{Error, Result};

impl ModelShape {
    /// The shape of the model that `config` describes.
    ///
    /// # Errors
    /// A size is 0, sizes contradict each other, or there are not as many windows as layers.
    pub fn from_config(config: &Config) -> Result<Self> {
        let mlp = Mlp { width: size("ffn", config.ffn)?, matrices: Matrices::Gated, bias: config.ffn_bias };
        let shape = Self {
            vocab: size("vocab", config.vocab)?,
            hidden: size("hidden", config.hidden)?,
            context: size("context", config.context)?,
            positions: None,
            norm: Norm::Rms,
            tied: config.tied,
            attention: Attention::Grouped {
                heads: size("heads", config.heads)?,
                kv_heads: size("kv_heads", config.kv_heads)?,
                head_dim: size("head_dim", config.head_dim)?,
                qkv_bias: config.qkv_bias,
                output_bias: config.output_bias,
                qk_norm: match config.qk_norm {
                    config::QkNorm::None => QkNorm::None,
                    config::QkNorm::PerHead => QkNorm::PerHead,
                },
            },
            layers: runs(config, FeedForward::Dense(mlp))?,
        };
        shape.check()?;
        Ok(shape)
    }
}

/// Layers with the same window become one run.
fn runs(config: &Config, feed_forward: FeedForward) -> Result<Vec<Layers>> {
    if config.windows.len() != config.layers {
        let expected = format!("one per layer, {}", config.layers);
        return Err(Error::Setting { name: "windows", found: config.windows.len().to_string(), expected });
    }
    let equal = config.windows.chunk_by(|a, b| a == b);
    equal
        .map(|run| {
            let window = run.first().copied().flatten().map(|window| size("window", window)).transpose()?;
            Ok(Layers { count: size("layers", run.len())?, window, feed_forward: feed_forward.clone() })
        })
        .collect()
}

fn size(name: &'static str, value: usize) -> Result<Size> {
    u64::try_from(value).ok().and_then(Size::new).ok_or_else(|| Error::Setting {
        name,
        found: value.to_string(),
        expected: "at least 1".into(),
    })
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
