//! One backward in f64: loss, every gradient, and the global norm are those of one device.

use super::compare::{GRADIENTS, assert_close};
use super::models::{Model, batch, cases};
use super::ranks::{FORMS, on_ranks};
use candle_core::DType;
use ch3_tensor_parallel::boundary::Inputs;
use decoder::split::Split;
use decoder::{Context, Decoder, Tokens};
use std::sync::Arc;
use training::gradients::Gradients;
use training::{Named, clip, segments};

/// Loss sum and gradients of the mean loss.
pub(crate) fn backward(model: &Decoder, split: Split, tokens: &Tokens, targets: &[u32]) -> (f64, Named) {
    let sink = Arc::new(Gradients::expected(model, 1));
    let ctx = Context::training(sink.clone()).with_split(split);
    let count = targets.iter().filter(|&&target| target != decoder::ops::IGNORED).count();
    let (sum, counted) = segments::forward_backward(model, &ctx, tokens, targets, 1. / count as f64).unwrap();
    assert_eq!(counted, count);
    (sum, sink.finish().unwrap())
}

/// Loss, full gradients and squared norm on every rank.
fn of_group(model: &Model, tp: usize, sequence: Option<Inputs>, lengths: &[usize]) -> Vec<(f64, Named, f64)> {
    let (tokens, targets) = batch(model, lengths);
    on_ranks(model, tp, sequence, |_, tensor| {
        let decoder = model.load(DType::F64, &tensor.training_split());
        let (sum, mut gradients) = backward(&decoder, tensor.training_split(), &tokens, &targets);
        tensor.synchronise(&mut gradients)?;
        let squares = tensor.sum_of_squares(&gradients, 0)?;
        Ok((sum, tensor.gather(&gradients)?, squares))
    })
}

#[test]
fn loss_gradients_and_global_norm_are_those_of_one_device() {
    let (mut worst, mut runs) = (0f64, 0);
    for (model, sizes) in cases() {
        // Unequal rows, and a length that no number of ranks divides.
        let lengths = [13, 6];
        let (tokens, targets) = batch(&model, &lengths);
        let (loss, expected) = backward(&model.load(DType::F64, &Split::whole()), Split::whole(), &tokens, &targets);
        let norm = clip::global_norm(&expected, 0).unwrap();
        for tp in sizes {
            for sequence in FORMS {
                for (rank, (found_loss, found, squares)) in of_group(&model, tp, sequence, &lengths).iter().enumerate()
                {
                    let what = format!("{}, tp {tp}, sequence {sequence:?}, rank {rank}", model.name);
                    assert!((found_loss - loss).abs() <= 1e-12 * loss, "{what}: loss {found_loss}, expected {loss}");
                    worst = worst.max(assert_close(&what, found, &expected, GRADIENTS));
                    let found_norm = squares.sqrt();
                    assert!((found_norm - norm).abs() <= 1e-11 * norm, "{what}: norm {found_norm}, expected {norm}");
                }
                runs += 1;
            }
        }
    }
    println!("{runs} runs, largest difference of a gradient {worst:.1e}");
}

/// Fewer tokens than ranks: some slices are empty.
#[test]
fn a_sequence_shorter_than_the_group_leaves_ranks_without_tokens_and_still_agrees() {
    for (model, sizes) in cases() {
        for tp in sizes {
            let lengths = [2, 1];
            let (tokens, targets) = batch(&model, &lengths);
            let whole = model.load(DType::F64, &Split::whole());
            let (_, expected) = backward(&whole, Split::whole(), &tokens, &targets);
            for sequence in FORMS {
                for (_, found, _) in of_group(&model, tp, sequence, &lengths) {
                    assert_close(&format!("{}, tp {tp}, {sequence:?}", model.name), &found, &expected, GRADIENTS);
                }
            }
        }
    }
}
