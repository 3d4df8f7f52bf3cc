//! Whether the sizes of a config fit together; nothing is allocated before this has been asked.

use super::Config;
use super::read::LARGEST;
use crate::error::{Error, Result};

/// More layers than any model has, few enough to list their weights.
const MOST_LAYERS: usize = 10_000;
/// More parameters than any model has: 2^48, 1 PiB in f32.
const MOST_PARAMETERS: u128 = 1 << 48;

/// What the file calls each setting, so that messages speak its language.
pub(super) struct Keys {
    pub(super) vocab: String,
    pub(super) hidden: String,
    pub(super) layers: String,
    pub(super) heads: String,
    pub(super) kv_heads: String,
    pub(super) head_dim: String,
    pub(super) ffn: String,
    pub(super) context: String,
    pub(super) norm_eps: String,
    pub(super) theta: String,
}

impl Keys {
    /// Of a Hugging Face `config.json`.
    pub(super) fn json() -> Self {
        Self {
            vocab: "vocab_size".to_owned(),
            hidden: "hidden_size".to_owned(),
            layers: "num_hidden_layers".to_owned(),
            heads: "num_attention_heads".to_owned(),
            kv_heads: "num_key_value_heads".to_owned(),
            head_dim: "head_dim".to_owned(),
            ffn: "intermediate_size".to_owned(),
            context: "max_position_embeddings".to_owned(),
            norm_eps: "rms_norm_eps".to_owned(),
            theta: "rope_theta".to_owned(),
        }
    }
}

/// A size that is derived where it is not stated: the width of one head.
pub(super) fn derived_head_dim(origin: &str, keys: &Keys, hidden: usize, heads: usize) -> Result<usize> {
    if heads >= 1 && hidden.is_multiple_of(heads) {
        return Ok(hidden / heads);
    }
    let (hidden_key, head_dim) = (&keys.hidden, &keys.head_dim);
    Err(Error::Config {
        origin: origin.to_owned(),
        key: keys.heads.clone(),
        found: heads.to_string(),
        expected: format!("does not divide {hidden_key} = {hidden}, and there is no {head_dim}; {}", divisors(hidden)),
    })
}

/// The legal values of something that must divide `number`.
fn divisors(number: usize) -> String {
    // Enough for any real size; an absurd one is not searched.
    let legal: Vec<String> =
        (1..=number.min(1 << 16)).filter(|&divisor| number.is_multiple_of(divisor)).map(|d| d.to_string()).collect();
    format!("expected one of {}", legal.join(", "))
}

impl Config {
    /// Checks that all sizes are legal and fit together: for a config that was changed or put together in code.
    ///
    /// # Errors
    /// [`Error::Config`] with the first key, as `config.json` calls it, that does not fit.
    pub fn validate(&self, origin: &str) -> Result<()> {
        self.check(origin, &Keys::json())
    }

    /// [`Config::validate`] in the words of another kind of file.
    pub(super) fn check(&self, origin: &str, keys: &Keys) -> Result<()> {
        self.check_sizes(origin, keys)?;
        self.check_details(origin)
    }

    /// The sizes alone.
    pub(super) fn check_sizes(&self, origin: &str, keys: &Keys) -> Result<()> {
        let fail = |key: &str, found: String, expected: String| {
            Err(Error::Config { origin: origin.to_owned(), key: key.to_owned(), found, expected })
        };
        let sizes = [
            (&keys.vocab, self.vocab, LARGEST),
            (&keys.hidden, self.hidden, LARGEST),
            (&keys.layers, self.layers, MOST_LAYERS),
            (&keys.heads, self.heads, LARGEST),
            (&keys.kv_heads, self.kv_heads, LARGEST),
            (&keys.head_dim, self.head_dim, LARGEST),
            (&keys.ffn, self.ffn, LARGEST),
            (&keys.context, self.context, LARGEST),
        ];
        for (key, size, most) in sizes {
            if !(1..=most).contains(&size) {
                return fail(key, size.to_string(), format!("expected a whole number from 1 to {most}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("does not divide {} = {}; {}", keys.heads, self.heads, divisors(self.heads));
            return fail(&keys.kv_heads, self.kv_heads.to_string(), expected);
        }
        if !self.head_dim.is_multiple_of(2) {
            let expected = "expected an even number: the rotary embedding turns dimensions in pairs".to_owned();
            return fail(&keys.head_dim, self.head_dim.to_string(), expected);
        }
        if !(self.norm_eps > 0.0 && self.norm_eps < 1.0) {
            return fail(&keys.norm_eps, self.norm_eps.to_string(), "expected a number between 0 and 1".to_owned());
        }
        if !(self.rope.theta > 1.0 && self.rope.theta.is_finite()) {
            return fail(&keys.theta, self.rope.theta.to_string(), "expected a number above 1".to_owned());
        }
        let parameters = self.exact_parameters();
        if parameters > MOST_PARAMETERS {
            let sizes = [&keys.vocab, &keys.hidden, &keys.layers, &keys.ffn].map(String::as_str).join(", ");
            let found = [self.vocab, self.hidden, self.layers, self.ffn].map(|size| size.to_string()).join(", ");
            let expected = format!("these sizes make {parameters} parameters; at most 2^48 are supported");
            return fail(&sizes, found, expected);
        }
        Ok(())
    }

    /// Windows, rotary scaling and special tokens.
    fn check_details(&self, origin: &str) -> Result<()> {
        let fail = |key: &str, found: String, expected: String| {
            Err(Error::Config { origin: origin.to_owned(), key: key.to_owned(), found, expected })
        };
        if self.windows.len() != self.layers || self.windows.contains(&Some(0)) {
            let expected = format!("expected {} windows, one per layer, each None or at least 1", self.layers);
            return fail("windows", format!("{:?}", self.windows), expected);
        }
        if let Some(problem) = self.rope.scaling.problem(self.head_dim) {
            return fail("rope_scaling", format!("{:?}", self.rope.scaling), problem);
        }
        let special = self.bos.iter().chain(&self.eos);
        if let Some(&id) = special.into_iter().find(|&&id| id as usize >= self.vocab) {
            let expected = format!("this token is outside the vocabulary of {} tokens", self.vocab);
            return fail("bos_token_id or eos_token_id", id.to_string(), expected);
        }
        Ok(())
    }
}
