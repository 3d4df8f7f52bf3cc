//! Steps of training: the weights of five SGD steps are those of one device.

use super::compare::{WEIGHTS, assert_close};
use super::models::{Model, cases, seed};
use super::ranks::{FORMS, on_ranks};
use candle_core::DType;
use ch3_tensor_parallel::train::Trainer;
use ch3_tensor_parallel::{Error, TensorParallel};
use decoder::random::Rng;
use decoder::split::Split;
use decoder::{Context, Decoder};
use std::sync::Arc;
use training::Named;
use training::data::TokenData;
use training::optimiser::Rule;
use training::plan::Plan;
use training::run::Run;
use training::schedule::Schedule;

const STEPS: u64 = 5;

/// A clipping norm that is always exceeded: a wrong norm is a wrong step.
fn plan() -> Plan {
    Plan {
        batch: 3,
        seq: 10,
        micro_batches: 2,
        steps: STEPS,
        rule: Rule::Sgd,
        schedule: Schedule::constant(1.0).unwrap(),
        clip: Some(0.3),
        seed: seed(),
    }
}

fn corpus(model: &Model) -> Arc<TokenData> {
    let mut rng = Rng::new(seed().wrapping_add(3_000));
    let vocab = model.config.vocab;
    Arc::new(TokenData::new((0..400).map(|_| rng.below(vocab) as u32).collect(), vocab).unwrap())
}

fn run(model: &Model, decoder: Decoder, split: Split) -> Run {
    Run::new(plan(), decoder, corpus(model), Context::inference().with_split(split)).unwrap()
}

/// Losses, norms and full weights.
fn of_rank(model: &Model, tensor: &TensorParallel) -> Result<(Vec<(f64, f64)>, Named), Error> {
    let mut run = run(model, model.load(DType::F64, &tensor.training_split()), tensor.training_split());
    let (mut trainer, mut records) = (Trainer::new(tensor, None), Vec::new());
    for _ in 0..STEPS {
        let record = trainer.step(&mut run)?;
        records.push((record.loss, record.norm));
    }
    Ok((records, tensor.gather(run.parameters())?))
}

#[test]
fn weights_after_five_clipped_sgd_steps_are_those_of_one_device() {
    let (mut worst, mut runs) = (0f64, 0);
    for (model, sizes) in cases() {
        let mut whole = run(&model, model.load(DType::F64, &Split::whole()), Split::whole());
        let expected: Vec<_> = (0..STEPS).map(|_| whole.step().unwrap()).collect();
        assert!(expected.iter().all(|record| record.norm > 0.3), "{}: every step is clipped", model.name);
        for tp in sizes {
            for sequence in FORMS {
                for (records, weights) in on_ranks(&model, tp, sequence, |_, tensor| of_rank(&model, &tensor)) {
                    let what = format!("{}, tp {tp}, sequence {sequence:?}", model.name);
                    for ((loss, norm), expected) in records.into_iter().zip(&expected) {
                        let (loss_off, norm_off) = ((loss - expected.loss).abs(), (norm - expected.norm).abs());
                        assert!(loss_off <= 1e-11 * expected.loss, "{what}: loss {loss}, expected {}", expected.loss);
                        assert!(norm_off <= 1e-10 * expected.norm, "{what}: norm {norm}, expected {}", expected.norm);
                    }
                    worst = worst.max(assert_close(&what, &weights, whole.parameters(), WEIGHTS));
                }
                runs += 1;
            }
        }
    }
    println!("{runs} runs, largest difference of a weight {worst:.1e}");
}
