//! Gradients of the whole decoder.

use super::models::{Model, all, seed, tokens};
use super::sums::{Named, backward};
use super::tolerance::{DTYPES, assert_close, numbers, tensor};
use candle_core::{DType, Device, Tensor};
use decoder::random::Rng;
use decoder::split::Split;
use decoder::weights::memory::Memory;
use decoder::{Context, Decoder};

/// Whether the loss depends on a weight: with a window of 1 a token sees only itself, whatever its query and key.
fn matters(model: &Model, name: &str) -> bool {
    let of_scores = ["q_proj", "k_proj", "q_norm", "k_norm"].iter().any(|part| name.contains(part));
    !(of_scores && model.config.windows.iter().all(|window| *window == Some(1)))
}

#[test]
fn every_parameter_has_a_gradient_after_one_backward_for_every_shape_and_dtype() {
    for model in all() {
        for dtype in DTYPES {
            let decoder = model.load(dtype);
            let rows = model.rows(&[7, 5]);
            let (_, sums) = backward(&decoder, &tokens(&rows), &model.targets(&rows));
            let gradients = sums.gradients();
            assert_eq!(gradients.len(), decoder.parameters().len(), "{}", model.name);
            for (parameter, uses) in decoder.parameters() {
                let what = format!("{}, {dtype:?}, {}", model.name, parameter.name());
                assert_eq!(sums.contributions(parameter.name()), uses, "{what}: contributions");
                let gradient = &gradients[&**parameter.name()];
                assert_eq!(gradient.dims(), parameter.value().dims(), "{what}");
                let largest = numbers(gradient).into_iter().fold(0f64, |largest, value| largest.max(value.abs()));
                assert!(largest.is_finite(), "{what}: {largest}");
                assert_eq!(largest > 1e-6, matters(&model, parameter.name()), "{what}: largest element {largest}");
            }
        }
    }
}

#[test]
fn the_derivative_along_a_random_direction_is_that_of_central_differences_for_every_shape() {
    for model in all() {
        let rows = model.rows(&[6, 3]);
        let targets = model.targets(&rows);
        let (_, sums) = backward(&model.load(DType::F64), &tokens(&rows), &targets);
        let gradients = sums.gradients();
        let mut rng = Rng::new(seed().wrapping_add(3_000));
        let directions: Vec<(String, Tensor, Tensor)> = model
            .tensors()
            .into_iter()
            .map(|(name, value)| {
                let direction = (0..value.elem_count()).map(|_| rng.normal()).collect();
                let direction = tensor(direction, value.dims());
                (name, value, direction)
            })
            .collect();
        let loss = |step: f64| {
            let moved = |(name, value, direction): &(String, Tensor, Tensor)| {
                (name.clone(), (value + (direction * step).unwrap()).unwrap())
            };
            let weights = Memory::new(directions.iter().map(moved).collect::<Vec<_>>());
            let moved = Decoder::load(&model.config, &weights, DType::F64, &Device::Cpu, &Split::whole()).unwrap();
            numbers(&moved.loss(&Context::inference(), &tokens(&rows), &targets).unwrap().sum)[0]
        };
        let numeric = (loss(1e-5) - loss(-1e-5)) / 2e-5;
        let along = |(name, _, direction): &(String, Tensor, Tensor)| -> f64 {
            numbers(&gradients[name]).iter().zip(numbers(direction)).map(|(g, d)| g * d).sum()
        };
        let analytic: f64 = directions.iter().map(along).sum();
        let close = (numeric - analytic).abs() < 1e-6 * (1. + numeric.abs());
        assert!(close, "{}: derivative {analytic}, central difference {numeric}", model.name);
    }
}

/// Padding and ignored targets contribute nothing: neither to the loss nor to any gradient.
#[test]
fn the_gradient_of_a_padded_batch_is_the_sum_of_its_rows() {
    for model in all() {
        let decoder = model.load(DType::F64);
        let rows = model.rows(&[3, 8, 5]);
        let seq = 8;
        let mut targets = model.targets(&rows);
        // A token that is there and does not count.
        targets[seq + 2] = decoder::ops::IGNORED;
        let (loss, together) = backward(&decoder, &tokens(&rows), &targets);
        let mut losses = 0.;
        let mut expected = Named::new();
        for (row, targets) in rows.iter().zip(targets.chunks(seq)) {
            let (loss, sums) = backward(&decoder, &tokens(std::slice::from_ref(row)), &targets[..row.len()]);
            losses += loss;
            for (name, gradient) in sums.gradients() {
                let sum = expected.remove(&name).map_or(gradient.clone(), |sum| (sum + &gradient).unwrap());
                expected.insert(name, sum);
            }
        }
        assert!((loss - losses).abs() < 1e-12 * losses, "{}: {loss} and {losses}", model.name);
        for (name, found) in together.gradients() {
            assert_close(&format!("{}, {name}", model.name), DType::F64, &found, &expected[&name]);
        }
    }
}
