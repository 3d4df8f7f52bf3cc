//! However a batch is cut, into micro-batches or over ranks, its loss, its gradient and its step are the same.

use crate::support::{Generator, adamw, config, model, plan, run, worst_difference};
use candle_core::DType;
use decoder::{Context, Decoder};
use std::sync::Arc;
use training::accumulation::{Loss, evaluate, forward_backward};
use training::data::{Batch, IGNORED};
use training::gradients::Gradients;
use training::optimiser::Rule;
use training::{Error, Named};

const MODELS: [&str; 2] = ["llama-gqa", "llama-tied-odd"];

fn gradients(model: &Decoder, micro_batches: &[Batch], count: usize) -> (Loss, Named) {
    let sink = Arc::new(Gradients::expected(model, micro_batches.len()));
    let loss = forward_backward(model, &Context::training(sink.clone()), micro_batches, count).unwrap();
    (loss, sink.finish().unwrap())
}

/// A batch with padding: its rows have unequal numbers of targets that count, the first none.
fn padded(generator: &mut Generator, vocab: usize) -> Batch {
    let (rows, seq) = (8, 12);
    let mut ids = |_| generator.below(vocab) as u32;
    let (inputs, mut targets): (Vec<u32>, Vec<u32>) =
        ((0..rows * seq).map(&mut ids).collect(), (0..rows * seq).map(&mut ids).collect());
    for row in 0..rows {
        let count = if row == 0 { 0 } else { 1 + generator.below(seq) };
        targets[row * seq + count..(row + 1) * seq].fill(IGNORED);
    }
    Batch { inputs, targets, rows, seq }
}

#[test]
fn a_batch_cut_in_any_way_has_the_gradient_of_the_whole_and_padding_is_no_target() {
    let mut generator = Generator::fresh();
    for name in MODELS {
        let model = model(name, DType::F64);
        let batch = padded(&mut generator, config(name).vocab);
        let count = batch.count();
        let (whole, expected) = gradients(&model, std::slice::from_ref(&batch), count);
        assert_eq!(whole.count, count);
        for parts in [2, 3, 4, 8, 20] {
            let micro_batches = batch.split(parts);
            assert_eq!(micro_batches.len(), parts.min(8));
            let (loss, found) = gradients(&model, &micro_batches, count);
            assert_eq!(loss.count, count, "{name} in {parts}");
            assert!((loss.mean() - whole.mean()).abs() <= 1e-12, "{name} in {parts}: loss {loss:?}, whole {whole:?}");
            let (worst, of) = worst_difference(&found, &expected);
            assert!(worst <= 1e-12, "{name} in {parts}: the gradient of {of} differs by {worst:e}");
        }
        let forward_only = evaluate(&model, &Context::inference(), batch.split(3)).unwrap();
        assert!((forward_only.mean() - whole.mean()).abs() <= 1e-12 && forward_only.count == count);
    }
}

#[test]
fn accumulating_4_times_2_takes_the_steps_of_8_under_clipping() {
    let mut generator = Generator::fresh();
    for name in MODELS {
        let data = generator.corpus(config(name).vocab, 700);
        for rule in [Rule::Sgd, adamw()] {
            let mut whole = run(plan(rule.clone(), 6), model(name, DType::F64), &data);
            let mut cut = plan(rule.clone(), 6);
            cut.micro_batches = 4;
            let mut cut = run(cut, model(name, DType::F64), &data);
            for step in 0..6 {
                let (expected, found) = (whole.step().unwrap(), cut.step().unwrap());
                assert!(expected.norm > 0.2, "clipping to 0.1 has an effect: {}", expected.norm);
                let loss = (found.loss - expected.loss).abs();
                let norm = (found.norm / expected.norm - 1.0).abs();
                assert!(loss <= 1e-12 && norm <= 1e-12, "{name} {rule:?} step {step}: loss {loss:e}, norm {norm:e}");
            }
            let (worst, of) = worst_difference(cut.parameters(), whole.parameters());
            assert!(worst <= 1e-12, "{name} {rule:?}: {of} differs by {worst:e}");
            let first = model(name, DType::F64);
            let first: Named =
                first.parameters().into_iter().map(|(p, _)| (p.name().clone(), p.value().clone())).collect();
            let (moved, _) = worst_difference(whole.parameters(), &first);
            assert!(moved > 1e-4, "{name} {rule:?}: the weights moved by {moved:e} only");
        }
    }
}

/// What a data-parallel rank does: a part of the rows, then sums over ranks. The last rank has no row at all.
#[test]
fn ranks_that_share_the_rows_and_add_up_take_the_step_of_one_device() {
    let mut generator = Generator::fresh();
    let name = "llama-tied-odd";
    let data = generator.corpus(config(name).vocab, 700);
    let mut alone = run(plan(Rule::Sgd, 3), model(name, DType::F64), &data);
    let mut rank = run(plan(Rule::Sgd, 3), model(name, DType::F64), &data);
    for step in 0..3 {
        let others: Vec<_> = [5..8, 8..8]
            .map(|rows| {
                let micro_batches = rank.batches().rows(step, rows).unwrap().split(2);
                gradients(rank.model(), &micro_batches, rank.batches().batch(step).count())
            })
            .into();
        assert_eq!(others[1].0, Loss::default(), "a rank without rows has no loss and a gradient of zeros");
        let found = rank
            .step_with(0..5, |loss, gradients| {
                for (other, theirs) in &others {
                    *loss += *other;
                    for (name, gradient) in gradients.iter_mut() {
                        *gradient = (&*gradient + &theirs[name])?;
                    }
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        let expected = alone.step().unwrap();
        assert!((found.loss - expected.loss).abs() <= 1e-12 && (found.norm / expected.norm - 1.0).abs() <= 1e-12);
        assert_eq!((found.tokens, found.learning_rate), (expected.tokens, expected.learning_rate));
    }
    let (worst, of) = worst_difference(rank.parameters(), alone.parameters());
    assert!(worst <= 1e-12, "{of} differs by {worst:e}");
}

#[test]
fn training_learns_in_every_type_and_bf16_follows_f32() {
    let mut generator = Generator::fresh();
    let name = "llama-gqa";
    let data = generator.corpus(config(name).vocab, 3000);
    let losses = [DType::F64, DType::F32, DType::BF16].map(|dtype| {
        let mut run = run(plan(adamw(), 20), model(name, dtype), &data);
        (0..20).map(|_| run.step().unwrap().loss).collect::<Vec<_>>()
    });
    let [exact, single, low] = &losses;
    for (dtype, tolerance, found) in [("f32", 1e-4, single), ("bf16", 5e-2, low)] {
        for (step, (found, expected)) in found.iter().zip(exact).enumerate() {
            let difference = (found - expected).abs();
            assert!(difference <= tolerance, "{dtype} step {step}: loss {found}, in f64 {expected}");
        }
    }
    let (first, last) = (exact[0], exact[19]);
    assert!(last < first - 0.05, "loss {first} became {last}");
}
