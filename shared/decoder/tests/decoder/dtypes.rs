//! What is computed in which type.

use super::models::{all, logits, seed, tokens};
use super::sums::{Sums, backward, backward_in};
use super::tolerance::{DTYPES, assert_close, difference, numbers, tensor};
use super::{reference, tolerance};
use candle_core::{DType, Device, Tensor, Var};
use decoder::ops::{self, LossSum};
use decoder::split::{Split, Vocabulary, Whole};
use decoder::weights::memory::Memory;
use decoder::{Context, Decoder, Parameter, Result};
use std::sync::Arc;

/// f64 stays f64: one step in f32 would leave an error of 1e-8.
#[test]
fn logits_in_f64_are_those_of_plain_f64_loops_for_every_shape() {
    for model in all() {
        let (decoder, rows) = (model.load(DType::F64), model.rows(&[11]));
        let expected = tensor(reference::logits(&model, &rows[0]).concat(), &[1, 11, model.config.vocab]);
        let found = logits(&decoder, &rows);
        assert_eq!(found.dtype(), DType::F64, "{}", model.name);
        assert_close(&model.name, DType::F64, &found, &expected);
        let training = Context::training(Arc::new(Sums::default()));
        let attached = decoder.logits(&training, &tokens(&rows), None).unwrap();
        assert_close(&format!("{}, with a graph", model.name), DType::F64, &attached, &expected);
    }
}

#[test]
fn losses_and_gradients_in_f64_have_no_step_in_f32() {
    for model in all() {
        let (decoder, rows) = (model.load(DType::F64), model.rows(&[7, 4]));
        let targets = model.targets(&rows);
        let (loss, sums) = backward(&decoder, &tokens(&rows), &targets);
        let expected = loss_of(&model, &rows, &targets);
        assert!((loss - expected).abs() <= 1e-12 * expected, "{}: loss {loss}, expected {expected}", model.name);
        let without_graph = decoder.loss(&Context::inference(), &tokens(&rows), &targets).unwrap();
        assert_eq!(without_graph.sum.dtype(), DType::F64);
        let without_graph = numbers(&without_graph.sum)[0];
        assert!((without_graph - expected).abs() <= 1e-12 * expected, "{}: loss {without_graph}", model.name);
        assert!(sums.gradients().values().all(|gradient| gradient.dtype() == DType::F64), "{}", model.name);
    }
}

/// Σ −log softmax(logits)[target], from the reference's logits.
fn loss_of(model: &super::models::Model, rows: &[Vec<u32>], targets: &[u32]) -> f64 {
    let seq = rows[0].len();
    let mut sum = 0.;
    for (row, targets) in rows.iter().zip(targets.chunks(seq)) {
        for (logits, &target) in reference::logits(model, row).iter().zip(targets) {
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let normaliser = logits.iter().map(|logit| (logit - largest).exp()).sum::<f64>().ln() + largest;
            sum += normaliser - logits[target as usize];
        }
    }
    sum
}

#[test]
fn weights_in_half_precision_compute_as_their_rounded_values_in_f32() {
    for dtype in [DType::BF16, DType::F16] {
        for model in all() {
            let decoder = model.load(dtype);
            assert_eq!(decoder.activations(), DType::F32);
            let rounded = model.tensors().into_iter().map(|(name, value)| (name, value.to_dtype(dtype).unwrap()));
            let rounded = Memory::new(rounded.collect::<Vec<_>>());
            let wide = Decoder::load(&model.config, &rounded, DType::F32, &Device::Cpu, &Split::whole()).unwrap();
            // Few rows and many take different products.
            for lengths in [&[2][..], &[9, 4]] {
                let rows = model.rows(lengths);
                let what = format!("{dtype:?}, {lengths:?} tokens, {}", model.name);
                assert_close(&what, DType::F32, &logits(&decoder, &rows), &logits(&wide, &rows));
                let targets = model.targets(&rows);
                let (_, found) = backward(&decoder, &tokens(&rows), &targets);
                let (_, expected) = backward(&wide, &tokens(&rows), &targets);
                for (name, expected) in expected.gradients() {
                    let found = &found.gradients()[&name];
                    assert_eq!(found.dtype(), DType::F32);
                    assert_close(&format!("{what}: gradient of {name}"), DType::F32, found, &expected);
                }
            }
        }
    }
}

#[test]
fn narrower_types_stay_within_their_rounding_of_f64() {
    for model in all() {
        let rows = model.rows(&[6]);
        let exact = logits(&model.load(DType::F64), &rows);
        for dtype in DTYPES {
            let found = logits(&model.load(dtype), &rows);
            assert_close(&format!("{dtype:?}, {}", model.name), dtype, &found, &exact);
        }
    }
}

/// Hidden states in f16 from the start on: what a GPU does with an f16 model.
struct HalfActivations;

impl Vocabulary for HalfActivations {
    fn embed(&self, ctx: &Context, ids: &Tensor, weight: &Parameter, _: DType) -> Result<Tensor> {
        ops::embedding(ctx, ids, weight, DType::F16)
    }

    fn logits(&self, ctx: &Context, x: &Tensor, weight: &Parameter) -> Result<Tensor> {
        Whole.logits(ctx, x, weight)
    }

    fn loss(&self, ctx: &Context, x: &Tensor, weight: &Parameter, targets: &[u32]) -> Result<LossSum> {
        Whole.loss(ctx, x, weight, targets)
    }
}

/// The whole decoder, backward included, in the composed forms that run on GPUs: on CPU f16 activations take them.
#[test]
fn activations_in_f16_stay_within_their_rounding_of_f64() {
    for model in all() {
        let rows = model.rows(&[6, 3]);
        let targets = model.targets(&rows);
        let decoder = model.load(DType::F16);
        let split = Split { vocabulary: Arc::new(HalfActivations), ..Split::whole() };
        let ctx = Context::inference().with_split(split);
        let found = decoder.logits(&ctx, &tokens(&rows), None).unwrap();
        assert_eq!(found.dtype(), DType::F16);
        let exact = model.load(DType::F64);
        // Padded tokens are nobody's.
        let shown = |logits: &Tensor, row: usize| logits.get(row).unwrap().narrow(0, 0, rows[row].len()).unwrap();
        for row in 0..2 {
            let expected = shown(&logits(&exact, &rows), row);
            assert_close(&format!("row {row}, {}", model.name), DType::F16, &shown(&found, row), &expected);
        }
        let (loss, found) = backward_in(ctx, &decoder, &tokens(&rows), &targets);
        let (expected_loss, expected) = backward(&exact, &tokens(&rows), &targets);
        let tolerance = tolerance::of(DType::F16);
        assert!((loss / expected_loss - 1.).abs() < tolerance, "{}: loss {loss}, expected {expected_loss}", model.name);
        for (name, expected) in expected.gradients() {
            let worst = difference(&found.gradients()[&name], &expected);
            assert!(worst < tolerance, "{}: gradient of {name} differs by {worst:.1e}", model.name);
        }
    }
}

/// bf16 cannot count past 256: a sum that is kept in it stalls.
#[test]
fn gradients_of_many_tokens_are_summed_in_f32_or_wider_for_narrow_activations() {
    const TOKENS: usize = 1_000;
    let (width, dtype) = (4, DType::BF16);
    let parameter = |shape: &[usize]| Parameter::new("w", Tensor::ones(shape, dtype, &Device::Cpu).unwrap());
    let sums = Arc::new(Sums::default());
    let ctx = Context::training(sums.clone());
    let x = Var::ones((1, TOKENS, width), dtype, &Device::Cpu).unwrap();
    let bias = parameter(&[width]);
    ops::add_bias(&ctx, &x, &bias).unwrap().backward().unwrap();
    assert_eq!(numbers(&sums.gradients()["w"]), vec![TOKENS as f64; width], "bias");

    let sums = Arc::new(Sums::default());
    let ctx = Context::training(sums.clone());
    let ids = Tensor::zeros((1, TOKENS), DType::U32, &Device::Cpu).unwrap();
    ops::embedding(&ctx, &ids, &parameter(&[2, width]), dtype).unwrap().backward().unwrap();
    let expected = [vec![TOKENS as f64; width], vec![0.; width]].concat();
    assert_eq!(numbers(&sums.gradients()["w"]), expected, "embedding");

    let sums = Arc::new(Sums::default());
    let ctx = Context::training(sums.clone());
    ops::rms_norm(&ctx, &x, &bias, 1e-6).unwrap().backward().unwrap();
    for sum in numbers(&sums.gradients()["w"]) {
        assert!((sum - TOKENS as f64).abs() < 1., "norm: {sum}, seed {}", seed());
    }
}

#[test]
fn contributions_to_one_gradient_are_added_up_in_f32_or_wider() {
    let contribution = |value: f64, dtype| {
        let value = Tensor::new(&[value], &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        ops::WeightGradient::ready(value)
    };
    for (first, second) in [(DType::BF16, DType::BF16), (DType::BF16, DType::F32), (DType::F32, DType::F16)] {
        let sum = contribution(256., first).accumulate(None).unwrap();
        let sum = contribution(1., second).accumulate(Some(sum)).unwrap();
        assert_eq!(numbers(&sum), [257.], "{first:?} and {second:?}");
    }
    let sum = contribution(1e-12, DType::F64).accumulate(None).unwrap();
    let sum = contribution(1., DType::F64).accumulate(Some(sum)).unwrap();
    assert_eq!(numbers(&sum), [1. + 1e-12], "f64 stays f64");
}
