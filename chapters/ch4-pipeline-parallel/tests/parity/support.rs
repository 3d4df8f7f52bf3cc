//! A tiny model, fresh batches, and one step on as many ranks as there are stages.

use candle_core::{DType, Device};
use ch4_pipeline_parallel::Result;
use ch4_pipeline_parallel::engine::{MicroBatch, Outcome, Pipeline, Stage};
use ch4_pipeline_parallel::schedule::Kind;
use ch4_pipeline_parallel::stages::{LayerCosts, Stages};
use collective::{Operation, Options, launch};
use decoder::random::Rng;
use decoder::split::Split;
use decoder::weights::random::Random;
use decoder::{Config, Context, Decoder};
use lab::batch::Batch;
use training::Named;

/// 16 layers, f64 in the tests.
pub(crate) fn config(tied: bool, layers: usize) -> Config {
    let json = format!(
        r#"{{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 12,
            "num_hidden_layers": {layers}, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 19,
            "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "tie_word_embeddings": {tied},
            "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "rope_theta": 10000.0}}"#
    );
    Config::from_json(&json, None, "a test").unwrap()
}

/// Large weights, so that gradients are far from 0 in every layer.
pub(crate) fn weights(seed: u64) -> Random {
    Random { seed, std: 0.3 }
}

pub(crate) fn load(config: &Config, seed: u64, split: &Split) -> Decoder {
    Decoder::load(config, &weights(seed), DType::F64, &Device::Cpu, split).unwrap()
}

/// `rows` sequences of 2 to 6 tokens.
pub(crate) fn batch(config: &Config, rows: usize, seed: u64) -> Batch {
    let mut rng = Rng::new(seed);
    let mut below = |n: u64| rng.bits() % n;
    let sequences = (0..rows).map(|_| (0..2 + below(5)).map(|_| below(19) as u32).collect()).collect();
    Batch::new("a test", sequences, config).unwrap()
}

pub(crate) fn cut(kind: Kind, p: usize, config: &Config) -> Result<Stages> {
    let layout = kind.schedule(p, p * 2, 2).or_else(|_| kind.schedule(p, 2 * p + 2, 2))?.layout;
    Stages::balanced(layout, p, &LayerCosts::flops(config, 6)?)
}

/// What one step leaves on every rank: its outcome, its norm, bytes that it sent to other stages.
pub(crate) struct Ranks {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) norms: Vec<f64>,
    pub(crate) sent: Vec<u64>,
}

/// One step of `pipeline` on ranks, each with its own part of the weights.
pub(crate) fn step(
    pipeline: &Pipeline,
    config: &Config,
    seed: u64,
    micro_batches: &[MicroBatch],
    count: usize,
    options: &Options,
) -> std::result::Result<Ranks, collective::Error> {
    let ranks = launch(pipeline.stages().len(), options, |rank| {
        let split = pipeline.stages().split(rank.rank());
        let model = load(config, seed, &split);
        let context = Context::inference().with_split(split).with_observer(rank.observer());
        let communicator = rank.communicator();
        let stage =
            Stage { pipeline, communicator: &**communicator, clock: rank.clock(), model: &model, context: &context };
        let mut outcome = stage.step(micro_batches, count)?;
        let sent = communicator.traffic().of(Operation::Send).2.total();
        stage.sum_tied(&mut outcome.gradients)?;
        let norm = stage.global_norm(&outcome.gradients, 0)?;
        Ok::<_, ch4_pipeline_parallel::Error>((outcome, norm, sent))
    })?;
    let (mut outcomes, mut norms, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    for (outcome, norm, bytes) in ranks {
        outcomes.push(outcome);
        norms.push(norm);
        sent.push(bytes);
    }
    Ok(Ranks { outcomes, norms, sent })
}

/// Largest difference of two sets of gradients, which must have the same names.
pub(crate) fn difference(a: &Named, b: &Named) -> f64 {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let largest = |(a, b): (_, &candle_core::Tensor)| {
        let a: &candle_core::Tensor = a;
        (a - b).unwrap().abs().unwrap().max_all().unwrap().to_dtype(DType::F64).unwrap().to_scalar::<f64>().unwrap()
    };
    a.values().zip(b.values()).map(largest).fold(0.0, f64::max)
}
