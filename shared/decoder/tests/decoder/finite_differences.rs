//! The gradient of every operation against central differences of its value, in f64.

use super::models::seed;
use super::sums::Sums;
use super::tolerance::{numbers, tensor};
use candle_core::{DType, Device, Tensor, Var};
use decoder::config::Activation;
use decoder::ops::{self, IGNORED, Rotation, Visible};
use decoder::random::Rng;
use decoder::{Context, Parameter, Result};
use std::sync::Arc;

/// An operation of some inputs and some parameters.
type Operation<'a> = &'a dyn Fn(&Context, &[Tensor], &[Parameter]) -> Result<Tensor>;

fn normal(rng: &mut Rng, shape: &[usize]) -> Tensor {
    tensor((0..shape.iter().product()).map(|_| rng.normal()).collect(), shape)
}

fn parameters(values: &[Tensor]) -> Vec<Parameter> {
    values.iter().enumerate().map(|(index, value)| Parameter::new(format!("p{index}"), value.clone())).collect()
}

/// Σ output ∘ weights: a scalar that depends on every element of the output.
fn weighed(output: &Tensor, weights: &Tensor) -> Tensor {
    output.flatten_all().unwrap().mul(weights).unwrap().sum_all().unwrap()
}

/// Compares the gradient of every element of every input and parameter of `operation` with its central difference.
fn check(what: &str, inputs: &[&[usize]], parameter_shapes: &[&[usize]], operation: Operation<'_>) {
    let mut rng = Rng::new(seed());
    let mut draw = |shapes: &[&[usize]]| shapes.iter().map(|shape| normal(&mut rng, shape)).collect::<Vec<_>>();
    let (inputs, values) = (draw(inputs), draw(parameter_shapes));
    let output = operation(&Context::inference(), &inputs, &parameters(&values)).unwrap();
    let weights = normal(&mut rng, &[output.elem_count()]);

    let sums = Arc::new(Sums::default());
    let leaves: Vec<Var> = inputs.iter().map(|input| Var::from_tensor(input).unwrap()).collect();
    let tensors: Vec<Tensor> = leaves.iter().map(|leaf| leaf.as_tensor().clone()).collect();
    let attached = operation(&Context::training(sums.clone()), &tensors, &parameters(&values)).unwrap();
    assert_eq!(numbers(&attached), numbers(&output), "{what}: the value with a graph is that without");
    let store = weighed(&attached, &weights).backward().unwrap();
    let of_inputs = leaves.iter().map(|leaf| store.get(leaf).expect("a gradient of every input").clone());
    let of_parameters = (0..values.len()).map(|index| sums.gradients()[&format!("p{index}")].clone());
    let analytic: Vec<Tensor> = of_inputs.chain(of_parameters).collect();

    let all: Vec<Tensor> = inputs.iter().chain(&values).cloned().collect();
    let value = |all: &[Tensor]| {
        let (inputs, values) = all.split_at(inputs.len());
        let output = operation(&Context::inference(), inputs, &parameters(values)).unwrap();
        numbers(&weighed(&output, &weights))[0]
    };
    for (which, gradient) in analytic.iter().enumerate() {
        assert_eq!(gradient.dims(), all[which].dims(), "{what}: shape of gradient {which}");
        for (index, analytic) in numbers(gradient).into_iter().enumerate() {
            let moved = |step: f64| {
                let mut changed = all.clone();
                let mut elements = numbers(&all[which]);
                elements[index] += step;
                changed[which] = tensor(elements, all[which].dims());
                value(&changed)
            };
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let close = (numeric - analytic).abs() < 1e-7 * (1. + numeric.abs());
            assert!(
                close,
                "{what} (seed {}): operand {which}, element {index}: {analytic}, difference {numeric}",
                seed()
            );
        }
    }
}

#[test]
fn linear() {
    // Few rows and many; a weight of one row, of one column.
    for (rows, inputs, outputs) in [(2, 5, 3), (11, 3, 4), (1, 4, 1), (3, 1, 4)] {
        let what = format!("linear {rows} × {inputs} → {outputs}");
        check(&what, &[&[1, rows, inputs]], &[&[outputs, inputs]], &|ctx, x, p| ops::linear(ctx, &x[0], &p[0]));
    }
}

#[test]
fn rms_norm() {
    for width in [1, 5, 33] {
        let what = format!("rms norm of width {width}");
        check(&what, &[&[1, 3, width]], &[&[width]], &|ctx, x, p| ops::rms_norm(ctx, &x[0], &p[0], 1e-3));
    }
}

#[test]
fn rotate() {
    let rotation = Rotation::new(&[0, 3, 1, 70], &[1., 0.2, 0.03], 1.2, DType::F64, &Device::Cpu).unwrap();
    check("rotate", &[&[2, 2, 3, 6]], &[], &|ctx, x, _| ops::rotate(ctx, &x[0], &rotation));
}

#[test]
fn attention_with_windows_padding_and_grouped_heads() {
    let windowed = |size: usize| (0..4usize).map(move |query| (query + 1).saturating_sub(size)..query + 1);
    let padded = Visible::new(3, vec![0..1, 0..2, 0..3, 2..4, 0..0, 0..0]);
    let masks = [
        ("causal", Visible::causal(1, 4), 4),
        ("window 1", Visible::new(4, windowed(1).collect()), 4),
        ("window 3, unused keys", Visible::new(4, windowed(3).collect()), 6),
        ("padding, later start", padded, 4),
        ("decode step", Visible::new(1, std::iter::once(0..5).collect()), 5),
    ];
    for (name, visible, keys) in &masks {
        for (heads, kv_heads) in [(2, 2), (4, 2), (3, 1)] {
            let (rows, seq) = (visible.rows(), visible.queries());
            let (q, kv) = ([rows, seq, heads, 2], [rows, kv_heads, *keys, 2]);
            check(&format!("attention, {name}, {heads}/{kv_heads} heads"), &[&q, &kv, &kv], &[], &|ctx, x, _| {
                ops::attention(ctx, &x[0], &x[1], &x[2], visible, 0.6)
            });
        }
    }
}

#[test]
fn gated_for_every_activation() {
    for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
        let shape: &[usize] = &[1, 3, 5];
        check(&format!("{activation:?}"), &[shape, shape], &[], &|ctx, x, _| ops::gated(ctx, activation, &x[0], &x[1]));
    }
}

#[test]
fn embedding_with_repeated_and_unused_ids() {
    let ids = Tensor::new(&[[4u32, 0, 4], [1, 4, 0]], &Device::Cpu).unwrap();
    check("embedding", &[], &[&[5, 3]], &|ctx, _, p| ops::embedding(ctx, &ids, &p[0], DType::F64));
}

#[test]
fn head_cross_entropy_with_ignored_targets() {
    let targets = [3, IGNORED, 0, 6, IGNORED, 3];
    check("cross-entropy", &[&[2, 3, 4]], &[&[7, 4]], &|ctx, x, p| {
        Ok(ops::head_cross_entropy(ctx, &x[0], &p[0], &targets)?.sum)
    });
}

#[test]
fn add_bias() {
    check("bias", &[&[2, 3, 4]], &[&[4]], &|ctx, x, p| ops::add_bias(ctx, &x[0], &p[0]));
}

#[test]
fn add() {
    check("add", &[&[2, 3, 4], &[2, 3, 4]], &[], &|ctx, x, _| ops::add(ctx, &x[0], &x[1]));
}

#[test]
fn an_operand_used_twice_gets_both_gradients() {
    check("x + norm(x)", &[&[1, 2, 3]], &[&[3]], &|ctx, x, p| {
        ops::add(ctx, &x[0], &ops::rms_norm(ctx, &x[0], &p[0], 1e-3)?)
    });
    check("x · wᵀ · wᵀ", &[&[1, 2, 3]], &[&[3, 3]], &|ctx, x, p| {
        ops::linear(ctx, &ops::linear(ctx, &x[0], &p[0])?, &p[0])
    });
}
