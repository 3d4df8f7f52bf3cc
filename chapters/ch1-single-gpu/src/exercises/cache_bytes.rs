//! Exercise 1.5: the bytes of a KV cache. The check makes the cache of a model that it draws, and counts the elements in it.

use crate::core::CacheBytes;
use crate::{homework, kv};
use candle_core::{DType, Device};
use decoder::cache::KvCache;
use decoder::random::Rng;
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Decoder, Result};
use lab::exercises::{Bug, Diagnosis, Exercise};
use lab::numbers::grouped;

/// The table.
pub const CACHE_BYTES: Exercise<CacheBytes> = Exercise {
    id: "1.5",
    title: "the bytes of a KV cache",
    reference: kv::cache_bytes,
    homework: homework::cache_bytes,
    stub: super::stub(&["cache_bytes"]),
    hints: &[
        "A layer keeps, for each token, what later queries look at. Which of q, k and v is that?",
        "Grouped heads: a key and a value are kept for each of `kv_heads`, however many query heads share them. Each has `head_dim` \
         elements, which need not be `hidden / heads`.",
        "layers · 2 · kv_heads · head_dim elements per token; times context, times batch, times `dtype.size_in_bytes()`.",
    ],
    bugs: &[
        Bug {
            name: "cache-keys-only",
            what: "the values are forgotten",
            implementation: keys_only,
            diagnosis: "half of it",
        },
        Bug {
            name: "cache-all-heads",
            what: "a key and a value for each query head",
            implementation: all_heads,
            diagnosis: "as if each query head",
        },
        Bug {
            name: "cache-one-sequence",
            what: "the batch is forgotten",
            implementation: one_sequence,
            diagnosis: "one sequence",
        },
        Bug {
            name: "cache-hidden-by-heads",
            what: "heads of hidden / heads, where the config says another width",
            implementation: hidden_by_heads,
            diagnosis: "hidden / heads",
        },
        Bug {
            name: "cache-16-bits",
            what: "two bytes per element, whatever the type",
            implementation: always_16_bits,
            diagnosis: "2 bytes per element",
        },
    ],
    check,
};

/// Models, of which some have more heads than key-value heads, and heads that are not hidden / heads wide.
const MODELS: u64 = 6;

fn check(cache_bytes: &CacheBytes) -> std::result::Result<(), Diagnosis> {
    for seed in 0..MODELS {
        let mut rng = Rng::new(seed);
        let config = drawn(&mut rng)?;
        // Eight bytes first: two bytes of four would look like keys without values.
        let dtype = if seed % 2 == 0 { DType::F64 } else { DType::F32 };
        let (context, batch) = (13 + rng.below(30), [3, 5][rng.below(2)]);
        let model = Decoder::load(&config, &Random::new(seed), dtype, &Device::Cpu, &Split::whole())?;
        let held = model.cache(batch, context)?.bytes();
        let said = cache_bytes(&config, context, batch, dtype)?;
        let case = Case { config: &config, context, batch, dtype, said, held };
        Diagnosis::unless(said == held, || case.explain())?;
    }
    Ok(())
}

/// One cache that was made, and what the implementation said about it.
struct Case<'a> {
    config: &'a Config,
    context: usize,
    batch: usize,
    dtype: DType,
    said: u64,
    held: u64,
}

impl Case<'_> {
    fn explain(&self) -> String {
        let Self { config, context, batch, dtype, said, held } = *self;
        let Config { layers, hidden, heads, kv_heads, head_dim, .. } = config;
        let is = |numerator: usize, denominator: usize| said * denominator as u64 == held * numerator as u64;
        let wrong = match () {
            () if is(1, 2) => "that is half of it: a layer keeps keys and values",
            () if is(*heads, *kv_heads) => "that is as if each query head had a key and a value of its own",
            () if is(1, batch) => "that is the cache of one sequence",
            () if is(hidden / heads, *head_dim) => "that is as if a head had hidden / heads elements",
            () if is(2, dtype.size_in_bytes()) => "that is 2 bytes per element: what is `dtype` for?",
            () if is(1, context) => "those are the bytes of one token",
            () if is(1, *layers) => "those are the bytes of one layer",
            () => "a cache has other bytes",
        };
        format!(
            "{wrong}\n{layers} layers, hidden {hidden}, {heads} heads, {kv_heads} kv_heads, head_dim {head_dim}; {batch} x {context} tokens \
             in {}:\nthe cache has {} bytes, you say {}",
            dtype.as_str(),
            grouped(held),
            grouped(said)
        )
    }
}

/// A small Llama whose sizes differ in ways that tell the mistakes apart.
fn drawn(rng: &mut Rng) -> Result<Config> {
    let (kv_heads, group) = ([1, 2][rng.below(2)], [3, 5][rng.below(2)]);
    let heads = kv_heads * group;
    let json = format!(
        r#"{{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": {},
            "intermediate_size": 32, "num_hidden_layers": {}, "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads},
            "head_dim": {}, "vocab_size": 40, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4}}"#,
        heads * 14,
        [7, 11][rng.below(2)],
        [8, 16][rng.below(2)],
    );
    Config::from_json(&json, None, "a drawn config")
}

fn keys_only(config: &Config, context: usize, batch: usize, dtype: DType) -> Result<u64> {
    Ok((config.layers * config.kv_width() * context * batch * dtype.size_in_bytes()) as u64)
}

fn all_heads(config: &Config, context: usize, batch: usize, dtype: DType) -> Result<u64> {
    Ok((2 * config.layers * config.query_width() * context * batch * dtype.size_in_bytes()) as u64)
}

fn one_sequence(config: &Config, context: usize, _batch: usize, dtype: DType) -> Result<u64> {
    kv::cache_bytes(config, context, 1, dtype)
}

fn hidden_by_heads(config: &Config, context: usize, batch: usize, dtype: DType) -> Result<u64> {
    let mut config = config.clone();
    config.head_dim = config.hidden / config.heads;
    kv::cache_bytes(&config, context, batch, dtype)
}

fn always_16_bits(config: &Config, context: usize, batch: usize, _dtype: DType) -> Result<u64> {
    kv::cache_bytes(config, context, batch, DType::F16)
}
