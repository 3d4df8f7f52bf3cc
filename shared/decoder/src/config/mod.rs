//! What a model is made of: the sizes and switches of its architecture.
//!
//! [`Config`] is the validated form. [`Config::from_json`] reads a Hugging Face `config.json`, [`Config::from_gguf`] the
//! metadata of a GGUF file, [`Config::to_json`] writes. A key means here what it means to the `transformers` library, and
//! an absent key has its default for that family. A setting that would change the numbers and is not supported is an error
//! that names key and value; which keys that concerns is decided in `unsupported`.
//!
//! Read this file first (the types), then `json` (the order in which a config is read), then one subject each:
//! `families`, `rope`, `frequencies`, `windows`, `tokens`, `unsupported`, `validate`, `gguf`, `write`.

mod families;
mod frequencies;
mod gguf;
mod json;
mod read;
mod rope;
mod tokens;
mod unsupported;
mod validate;
mod windows;
mod write;

pub use frequencies::Frequencies;

/// Model families that the one decoder computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Llama 2 and 3, SmolLM2 and others that reuse the architecture.
    Llama,
    /// Mistral: Llama with a sliding window.
    Mistral,
    /// Qwen2, Qwen2.5: biases on q, k, v.
    Qwen2,
    /// Qwen3: RMS norm on each head of q and k.
    Qwen3,
}

/// Which norm q and k go through before the rotary embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QkNorm {
    /// None.
    None,
    /// RMS norm over each head; weight `[head_dim]`.
    PerHead,
}

/// Activation of the feed-forward network's gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// GELU, exact (erf).
    Gelu,
    /// GELU, tanh approximation.
    GeluTanh,
}

/// Rotary position embedding (Su et al., RoFormer) and how its frequencies are stretched to longer contexts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies, 10,000 in the paper.
    pub theta: f64,
    /// Stretching.
    pub scaling: RopeScaling,
}

/// How rotary frequencies are stretched.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions are divided by `factor` (Chen et al., Position Interpolation).
    Linear {
        /// Divisor of positions.
        factor: f64,
    },
    /// Llama 3: long wavelengths are divided by `factor`, short ones kept, a smooth ramp between.
    Llama3 {
        /// Divisor of long wavelengths.
        factor: f64,
        /// Wavelengths above `original_context / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original_context / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Context length of the original training, in tokens.
        original_context: usize,
    },
    /// YaRN (Peng et al.): a ramp over dimensions, and a factor on cos and sin.
    Yarn {
        /// Divisor of long wavelengths.
        factor: f64,
        /// Rotations over the original context above which a dimension is kept.
        beta_fast: f64,
        /// Rotations below which a dimension is divided.
        beta_slow: f64,
        /// Factor on cos and sin, already resolved from `attention_factor`, `mscale`, `mscale_all_dim`.
        attention_factor: f64,
        /// Context length of the original training, in tokens.
        original_context: usize,
        /// Whether the ramp's ends are rounded to whole dimensions.
        truncate: bool,
    },
    /// Each frequency is divided by a number of its own. GGUF files store Llama 3's scaling in this form, as the tensor
    /// `rope_freqs.weight`.
    Divisors {
        /// One divisor per frequency, `[head_dim / 2]`.
        divisors: Vec<f64>,
    },
}

/// A validated decoder-only architecture. All sizes are at least 1 and consistent with each other.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Which family's conventions the weights follow.
    pub family: Family,
    /// Entries of the vocabulary.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads` (grouped-query attention, Ainslie et al.).
    pub kv_heads: usize,
    /// Width of one head; not always `hidden / heads`.
    pub head_dim: usize,
    /// Width of the feed-forward network.
    pub ffn: usize,
    /// Activation of the gate.
    pub activation: Activation,
    /// ε of the RMS norms.
    pub norm_eps: f64,
    /// Rotary position embedding.
    pub rope: Rope,
    /// Biases on q, k and v.
    pub qkv_bias: bool,
    /// Bias on the attention's output projection.
    pub output_bias: bool,
    /// Biases on the three projections of the feed-forward network.
    pub ffn_bias: bool,
    /// Norm on q and k.
    pub qk_norm: QkNorm,
    /// Per layer: how many of the last tokens a query sees, itself included; `None` for all.
    pub windows: Vec<Option<usize>>,
    /// Whether the head's weight is the embedding's.
    pub tied: bool,
    /// Context length, in tokens.
    pub context: usize,
    /// Token that a sequence begins with.
    pub bos: Option<u32>,
    /// Tokens that end a sequence.
    pub eos: Vec<u32>,
    /// Type of the stored weights, if the config says so.
    pub dtype: Option<candle_core::DType>,
}

impl Config {
    /// Rows of the query projection: `heads · head_dim`.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Rows of the key projection, and of the value projection: `kv_heads · head_dim`.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}
