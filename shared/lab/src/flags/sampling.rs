//! What to generate: `--prompt`, `--sample-len` and how the next token is chosen.

use crate::{Error, Result};
use clap::Args;
use decoder::generation::Sampling;

/// What to generate. How tokens are chosen is checked where it is done, by the decoder's sampler.
#[derive(Args, Clone, Debug)]
pub struct SamplingFlags {
    /// Text to continue; may be given several times, for a batch
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Vec<String>,
    /// How many tokens to generate
    #[arg(short = 'n', long, value_name = "TOKENS", default_value_t = 64)]
    pub sample_len: usize,
    /// Divides the logits; 0 takes the best token always
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Draw among the most likely tokens that together reach this probability [default: all]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Draw among this many of the most likely tokens [default: all]
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// Makes tokens less likely that occurred; 1 changes nothing
    #[arg(long, value_name = "PENALTY", default_value_t = 1.0, allow_negative_numbers = true)]
    pub repeat_penalty: f32,
    /// How many of the last tokens count as having occurred
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    pub repeat_last_n: usize,
    /// Seed of the draws
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
}

impl SamplingFlags {
    /// The prompts: those of the command line, `default` if there are none.
    ///
    /// # Errors
    /// An empty prompt.
    pub fn prompts(&self, default: &[&str]) -> Result<Vec<String>> {
        if self.prompt.iter().any(String::is_empty) {
            return Err(Error::Flag {
                flag: "--prompt",
                found: "\"\"".to_owned(),
                expected: "a model continues at least one token; give some text".to_owned(),
            });
        }
        Ok(if self.prompt.is_empty() {
            default.iter().copied().map(str::to_owned).collect()
        } else {
            self.prompt.clone()
        })
    }

    /// How the next token is chosen; checked where it is done, by the decoder's sampler.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            seed: self.seed,
        }
    }

    /// How many tokens to generate.
    ///
    /// # Errors
    /// 0.
    pub fn sample_len(&self) -> Result<usize> {
        match self.sample_len {
            0 => Err(Error::Flag {
                flag: "--sample-len",
                found: "0".to_owned(),
                expected: "a whole number of tokens from 1 up".to_owned(),
            }),
            tokens => Ok(tokens),
        }
    }
}
