//! Small models, fresh corpora, and one place for the tolerances.

use candle_core::{DType, Device, Tensor};
use decoder::random::Rng;
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder};
use ledger::Observer;
use std::sync::Arc;
use training::Named;
use training::data::TokenData;
use training::optimiser::{AdamW, Decay, Rule};
use training::plan::Plan;
use training::run::Run;
use training::schedule::Schedule;

/// The numbers of replicas that are compared with one device.
pub(crate) const DP: [usize; 5] = [1, 2, 3, 4, 8];

/// How near is equal: the only difference is the order of additions.
pub(crate) struct Tolerance {
    pub(crate) loss: f64,
    pub(crate) gradient: f64,
}

pub(crate) fn tolerance(dtype: DType) -> Tolerance {
    match dtype {
        DType::F64 => Tolerance { loss: 1e-10, gradient: 1e-9 },
        _ => Tolerance { loss: 1e-5, gradient: 1e-4 },
    }
}

/// A seed that is printed, so that a failure can be seen again.
pub(crate) fn fresh_seed() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = time.as_nanos() as u64;
    println!("seed {seed}");
    seed
}

pub(crate) fn config(tied: bool) -> Config {
    let json = format!(
        r#"{{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 24,
            "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 50, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
            "tie_word_embeddings": {tied}}}"#
    );
    Config::from_json(&json, None, "a small model").unwrap()
}

pub(crate) fn model(config: &Config, dtype: DType, seed: u64) -> Decoder {
    Decoder::load(config, &Random::new(seed), dtype, &Device::Cpu, &Split::whole()).unwrap()
}

/// Tokens of which the next is often the double, so that there is something to learn.
pub(crate) fn corpus(vocab: usize, tokens: usize, seed: u64) -> Arc<TokenData> {
    let mut rng = Rng::new(seed);
    let mut ids = vec![rng.below(vocab) as u32];
    for _ in 1..tokens {
        let last = ids[ids.len() - 1];
        ids.push(if rng.below(3) > 0 { last * 2 % vocab as u32 } else { rng.below(vocab) as u32 });
    }
    Arc::new(TokenData::new(ids, vocab).unwrap())
}

/// 13 sequences, which none of the numbers of replicas divides but 1; clipped far below the usual norm.
pub(crate) fn plan(rule: Rule, steps: u64, micro_batches: usize) -> Plan {
    let peak = if rule == Rule::Sgd { 0.1 } else { 1e-3 };
    let schedule = Schedule::cosine(peak, peak / 10.0, 2, 20).unwrap();
    Plan { batch: 13, seq: 12, micro_batches, steps, rule, schedule, clip: Some(0.1), seed: 5 }
}

pub(crate) fn adamw() -> Rule {
    Rule::AdamW(AdamW { decay: Decay::Matrices, ..AdamW::default() })
}

pub(crate) fn run(plan: &Plan, model: Decoder, data: &Arc<TokenData>, observer: Arc<dyn Observer>) -> Run {
    Run::new(plan.clone(), model, data.clone(), Context::inference().with_observer(observer)).unwrap()
}

fn wide(tensor: &Tensor) -> Tensor {
    tensor.detach().to_dtype(DType::F64).unwrap()
}

/// Copies in memory of their own: handles would change with the next step.
pub(crate) fn copies(tensors: &Named) -> Named {
    tensors.iter().map(|(name, tensor)| (name.clone(), wide(tensor).copy().unwrap())).collect()
}

/// The largest ‖difference‖ / ‖expected‖ of a tensor.
pub(crate) fn worst(found: &Named, expected: &Named) -> f64 {
    assert!(found.keys().eq(expected.keys()), "every parameter, on every rank");
    let norm = |tensor: &Tensor| tensor.sqr().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap().sqrt();
    let differences = found.iter().map(|(name, found)| {
        let expected = wide(&expected[name]);
        norm(&(wide(found) - &expected).unwrap()) / norm(&expected)
    });
    differences.fold(0.0, |worst, one| if one.is_nan() { one } else { f64::max(worst, one) })
}

/// Every element's bits.
pub(crate) fn bits(tensors: &Named) -> Vec<u64> {
    let bits = |tensor: &Tensor| -> Vec<u64> {
        wide(tensor).flatten_all().unwrap().to_vec1::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
    };
    tensors.values().flat_map(bits).collect()
}
