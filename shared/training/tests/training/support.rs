//! Small models, fresh corpora, and comparisons.

use candle_core::{DType, Device, Tensor};
use decoder::source::Source;
use decoder::split::Split;
use decoder::{Config, Context, Decoder};
use std::path::PathBuf;
use std::sync::Arc;
use training::Named;
use training::data::TokenData;
use training::optimiser::{AdamW, Decay, Rule};
use training::plan::Plan;
use training::run::Run;
use training::schedule::Schedule;

pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny")).join(name)
}

fn source(name: &str) -> Source {
    Source::resolve(folder(name).to_str().unwrap(), None, &folder("")).unwrap()
}

pub(crate) fn config(name: &str) -> Config {
    source(name).config().unwrap()
}

/// A model of its own: training changes its weights.
pub(crate) fn model(name: &str, dtype: DType) -> Decoder {
    let weights = source(name).weights().unwrap();
    Decoder::load(&config(name), &*weights, dtype, &Device::Cpu, &Split::whole()).unwrap()
}

/// Fresh inputs from a seed that is printed.
pub(crate) struct Generator(u64);

impl Generator {
    pub(crate) fn fresh() -> Self {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = time.as_nanos() as u64;
        println!("seed {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    /// Tokens of which the next is often the double, so that there is something to learn.
    pub(crate) fn corpus(&mut self, vocab: usize, tokens: usize) -> Arc<TokenData> {
        let mut ids = vec![self.below(vocab) as u32];
        for _ in 1..tokens {
            let id = match (self.below(3), ids.last()) {
                (0 | 1, Some(last)) => last * 2 % vocab as u32,
                _ => self.below(vocab) as u32,
            };
            ids.push(id);
        }
        Arc::new(TokenData::new(ids, vocab).unwrap())
    }
}

pub(crate) fn adamw() -> Rule {
    Rule::AdamW(AdamW { decay: Decay::Matrices, ..AdamW::default() })
}

/// 8 sequences of 12 tokens, clipped far below the usual norm.
pub(crate) fn plan(rule: Rule, steps: u64) -> Plan {
    let peak = if rule == Rule::Sgd { 0.1 } else { 1e-3 };
    Plan {
        batch: 8,
        seq: 12,
        micro_batches: 1,
        steps,
        rule,
        schedule: Schedule::cosine(peak, peak / 10.0, 2, 20).unwrap(),
        clip: Some(0.1),
        seed: 5,
    }
}

pub(crate) fn run(plan: Plan, model: Decoder, data: &Arc<TokenData>) -> Run {
    Run::new(plan, model, data.clone(), Context::inference()).unwrap()
}

fn wide(tensor: &Tensor) -> Tensor {
    tensor.detach().to_dtype(DType::F64).unwrap()
}

fn norm(tensor: &Tensor) -> f64 {
    tensor.sqr().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap().sqrt()
}

/// The largest relative difference of all tensors, with its name.
pub(crate) fn worst_difference(found: &Named, expected: &Named) -> (f64, String) {
    assert!(found.keys().eq(expected.keys()), "the same names");
    let differences = found.iter().map(|(name, tensor)| {
        let expected = wide(&expected[name]);
        (norm(&(wide(tensor) - &expected).unwrap()) / norm(&expected), name.to_string())
    });
    differences.max_by(|(one, _), (other, _)| one.total_cmp(other)).unwrap()
}

/// Every element's bits, by name.
pub(crate) fn bits(tensors: &Named) -> Vec<(String, Vec<u64>)> {
    let bits = |tensor: &Tensor| {
        let values: Vec<f64> = wide(tensor).flatten_all().unwrap().to_vec1().unwrap();
        values.into_iter().map(f64::to_bits).collect()
    };
    tensors.iter().map(|(name, tensor)| (name.to_string(), bits(tensor))).collect()
}
