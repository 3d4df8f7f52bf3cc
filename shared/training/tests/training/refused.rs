//! What has no meaning is refused before the run, and what goes wrong in it is named.

use crate::support::{Generator, adamw, config, model, plan, run};
use candle_core::DType;
use decoder::Context;
use std::sync::Arc;
use training::data::TokenData;
use training::optimiser::{AdamW, Rule};
use training::plan::Plan;
use training::run::Run;
use training::schedule::Schedule;

const NAME: &str = "llama-gqa";

fn refusal(change: impl FnOnce(&mut Plan), tokens: usize) -> String {
    let mut plan = plan(adamw(), 5);
    change(&mut plan);
    let data = TokenData::new(vec![1; tokens], config(NAME).vocab).unwrap();
    match Run::new(plan, model(NAME, DType::F32), Arc::new(data), Context::inference()) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn settings_without_meaning_are_refused_by_name_with_the_legal_values() {
    for (message, parts) in [
        (refusal(|plan| plan.batch = 0, 100), ["batch = 0", "at least 1"]),
        (refusal(|plan| plan.batch = usize::MAX, 100), ["batch = 18446744073709551615", "at most 65536"]),
        (refusal(|plan| plan.seq = 0, 100), ["sequence length = 0", "at least 1"]),
        (refusal(|plan| plan.seq = 100_000, 100), ["sequence length = 100000", "context"]),
        (refusal(|plan| plan.steps = 0, 100), ["steps = 0", "at least 1"]),
        (refusal(|plan| plan.micro_batches = 0, 100), ["micro-batches = 0", "at least 1"]),
        (refusal(|plan| plan.micro_batches = 9, 100), ["micro-batches = 9", "1 to 8"]),
        (refusal(|plan| plan.clip = Some(0.0), 100), ["clipping norm = 0", "positive"]),
        (refusal(|plan| plan.clip = Some(f64::NAN), 100), ["clipping norm = NaN", "positive"]),
        (
            refusal(|plan| plan.rule = Rule::AdamW(AdamW { weight_decay: -0.1, ..AdamW::default() }), 100),
            ["weight decay = -0.1", "0 or more"],
        ),
        (refusal(|_| (), 12), ["12 tokens are shorter than one sequence", "12 + 1"]),
        (refusal(|_| (), 0), ["0 tokens are shorter than one sequence", "12 + 1"]),
    ] {
        assert!(parts.iter().all(|part| message.contains(part)), "{message} says {parts:?}");
    }
    for rate in [0.0, -1e-3, f64::NAN, f64::INFINITY] {
        let message = Schedule::constant(rate).unwrap_err().to_string();
        assert!(message.contains("learning rate = ") && message.contains("positive"), "{message}");
    }
}

#[test]
fn f16_is_refused_because_its_gradients_would_vanish() {
    let data = Generator::fresh().corpus(config(NAME).vocab, 100);
    let run = Run::new(plan(adamw(), 5), model(NAME, DType::F16), data, Context::inference());
    assert!(run.unwrap_err().to_string().contains("bf16"));
}

#[test]
fn the_shortest_corpus_that_is_long_enough_is_trained_on() {
    let data = Generator::fresh().corpus(config(NAME).vocab, 13);
    let mut run = run(plan(adamw(), 2), model(NAME, DType::F32), &data);
    assert_eq!(run.batches().windows(), 1);
    assert!(run.step().unwrap().loss.is_finite());
}

#[test]
fn a_loss_that_is_not_a_number_names_the_step_and_the_first_tensor_and_changes_nothing() {
    let mut generator = Generator::fresh();
    let data = generator.corpus(config(NAME).vocab, 500);
    let names: Vec<_> = model(NAME, DType::F32).parameters().into_iter().map(|(p, _)| p.name().to_string()).collect();
    let broken = &names[1 + generator.below(names.len() - 1)];
    let mut run = run(plan(adamw(), 5), model(NAME, DType::F32), &data);
    run.step().unwrap();
    let weight = &run.parameters()[&**broken];
    let nan = weight.affine(f64::NAN, 0.0).unwrap();
    weight.slice_set(&nan, 0, 0).unwrap();
    let before = run.snapshot();
    let message = run.step().unwrap_err().to_string();
    assert!(message.contains("step 1") && message.contains(&format!("the weight {broken}")), "{broken}: {message}");
    assert_eq!(run.steps_done(), 1);
    assert_eq!(run.snapshot().optimiser.steps, before.optimiser.steps);
}

#[test]
fn an_overflow_on_the_way_to_the_loss_names_the_segment() {
    let data = Generator::fresh().corpus(config(NAME).vocab, 500);
    let mut run = run(plan(Rule::Sgd, 5), model(NAME, DType::F32), &data);
    let name = "model.layers.1.mlp.down_proj.weight";
    let weight = &run.parameters()[name];
    weight.slice_set(&weight.affine(0.0, f64::from(f32::MAX)).unwrap(), 0, 0).unwrap();
    let message = run.step().unwrap_err().to_string();
    assert!(message.contains("step 0") && message.contains("the output of layer 1"), "{message}");
}

#[test]
fn a_learning_rate_that_is_far_too_high_ends_the_run_with_advice() {
    let data = Generator::fresh().corpus(config(NAME).vocab, 500);
    let mut plan = plan(Rule::Sgd, 50);
    (plan.schedule, plan.clip) = (Schedule::constant(1e20).unwrap(), None);
    let mut run = run(plan, model(NAME, DType::F32), &data);
    let error = (0..50).find_map(|_| run.step().err()).expect("a loss or a gradient that is not finite");
    assert!(error.to_string().contains("lower the learning rate"), "{error}");
}
