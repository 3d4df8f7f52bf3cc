//! The forms that run on GPUs against the loops that run on CPU, operation by operation, forward and backward.
#![allow(clippy::unwrap_used)]

use super::real::composed;
use super::{IGNORED, Rotation, Visible, WeightGradient};
use super::{add, add_bias, attention, embedding, gated, head_cross_entropy, linear, rms_norm, rotate};
use crate::config::Activation;
use crate::random::Rng;
use crate::{Context, Parameter, Result};
use candle_core::{DType, Device, Tensor, Var};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const SEED: u64 = 11;

#[derive(Default)]
struct Sums(Mutex<BTreeMap<String, Tensor>>);

impl super::GradientSink for Sums {
    fn contribute(&self, name: &Arc<str>, gradient: WeightGradient) -> Result<()> {
        let mut sums = self.0.lock().unwrap();
        let sum = gradient.accumulate(sums.remove(&**name))?;
        sums.insert(name.to_string(), sum);
        Ok(())
    }
}

/// Draws normal tensors in f64.
fn normal(rng: &mut Rng, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_iter((0..count).map(|_| rng.normal()).collect::<Vec<_>>(), &Device::Cpu)
        .unwrap()
        .reshape(shape)
        .unwrap()
}

type Operation<'a> = dyn Fn(&Context, &[Tensor], &[Parameter]) -> Result<Tensor> + 'a;

/// One operation with the shapes of its inputs and of its parameters.
struct Case<'a> {
    name: String,
    inputs: Vec<Vec<usize>>,
    parameters: Vec<Vec<usize>>,
    operation: Box<Operation<'a>>,
    /// Whether it multiplies matrices, which candle's CPU cannot do in bf16.
    matrices: bool,
}

impl Case<'_> {
    /// Its value, then the gradients of all inputs and parameters, in `dtype`.
    fn run(&self, dtype: DType) -> Vec<Tensor> {
        let mut rng = Rng::new(SEED);
        let mut draw = |shape: &Vec<usize>| normal(&mut rng, shape).to_dtype(dtype).unwrap();
        let leaves: Vec<Var> = self.inputs.iter().map(|shape| Var::from_tensor(&draw(shape)).unwrap()).collect();
        let inputs: Vec<Tensor> = leaves.iter().map(|leaf| leaf.as_tensor().clone()).collect();
        let parameters: Vec<Parameter> =
            self.parameters.iter().enumerate().map(|(i, shape)| Parameter::new(format!("p{i}"), draw(shape))).collect();
        let sums = Arc::new(Sums::default());
        let value = (self.operation)(&Context::training(sums.clone()), &inputs, &parameters).unwrap();
        let weights = normal(&mut rng, value.dims()).to_dtype(value.dtype()).unwrap();
        let store = (&value * weights).unwrap().sum_all().unwrap().backward().unwrap();
        let of_inputs = leaves.iter().map(|leaf| store.get(leaf).unwrap().clone());
        let sums = sums.0.lock().unwrap();
        std::iter::once(value.detach()).chain(of_inputs).chain(sums.values().cloned()).collect()
    }
}

fn case<'a>(
    name: impl Into<String>,
    matrices: bool,
    inputs: &[&[usize]],
    parameters: &[&[usize]],
    operation: impl Fn(&Context, &[Tensor], &[Parameter]) -> Result<Tensor> + 'a,
) -> Case<'a> {
    let owned = |shapes: &[&[usize]]| shapes.iter().map(|shape| shape.to_vec()).collect();
    Case {
        name: name.into(),
        inputs: owned(inputs),
        parameters: owned(parameters),
        operation: Box::new(operation),
        matrices,
    }
}

/// Every operation of [`super`].
fn cases() -> Vec<Case<'static>> {
    let mut cases = vec![
        case("rms_norm", false, &[&[2, 3, 37]], &[&[37]], |ctx, x, p| rms_norm(ctx, &x[0], &p[0], 1e-5)),
        case("add_bias", false, &[&[2, 3, 7]], &[&[7]], |ctx, x, p| add_bias(ctx, &x[0], &p[0])),
        case("add", false, &[&[2, 3, 7], &[2, 3, 7]], &[], |ctx, x, _| add(ctx, &x[0], &x[1])),
        // Few rows and many take different loops.
        case("linear, 3 rows", true, &[&[1, 3, 37]], &[&[11, 37]], |ctx, x, p| linear(ctx, &x[0], &p[0])),
        case("linear, 20 rows", true, &[&[2, 10, 37]], &[&[11, 37]], |ctx, x, p| linear(ctx, &x[0], &p[0])),
        case("rotate", false, &[&[2, 3, 4, 10]], &[], |ctx, x, _| {
            let dtype = x[0].dtype();
            let frequencies = [1., 0.3, 0.1, 0.03, 0.01];
            rotate(ctx, &x[0], &Rotation::new(&[0, 1, 2, 7, 8, 9], &frequencies, 1.1, dtype, &Device::Cpu)?)
        }),
        case("embedding", false, &[], &[&[5, 3]], |ctx, _, p| {
            let ids = Tensor::new(&[[4u32, 0, 4, 4]], &Device::Cpu)?;
            embedding(ctx, &ids, &p[0], p[0].value().dtype())
        }),
        case("head_cross_entropy", true, &[&[1, 5, 6]], &[&[41, 6]], |ctx, x, p| {
            Ok(head_cross_entropy(ctx, &x[0], &p[0], &[3, IGNORED, 40, 0, IGNORED])?.sum)
        }),
    ];
    for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
        let name = format!("gated, {activation:?}");
        cases.push(case(name, false, &[&[2, 3, 35], &[2, 3, 35]], &[], move |ctx, x, _| {
            gated(ctx, activation, &x[0], &x[1])
        }));
    }
    let window = |queries: usize, size: usize| (0..queries).map(move |q| (q + 1usize).saturating_sub(size)..q + 1);
    let masks = [
        ("causal", Visible::causal(2, 7), 7),
        ("a decode step", Visible::new(1, vec![0..9, 2..4]), 9),
        ("windows and more than one block", Visible::new(70, window(70, 5).chain(window(70, 66)).collect()), 70),
        ("padding", Visible::new(3, vec![4..5, 3..6, 0..0, 0..1, 0..0, 0..0]), 6),
    ];
    for (name, visible, keys) in masks {
        for (heads, kv_heads) in [(4, 4), (4, 2), (6, 1)] {
            let (q, kv) = ([2, visible.queries(), heads, 6], [2, kv_heads, keys, 6]);
            let (name, visible) = (format!("attention, {name}, {heads}/{kv_heads} heads"), visible.clone());
            cases.push(case(name, true, &[&q, &kv, &kv], &[], move |ctx, x, _| {
                attention(ctx, &x[0], &x[1], &x[2], &visible, 0.4)
            }));
        }
    }
    cases
}

/// Fails where an element differs by more than `tolerance` of the largest one (or of 1).
fn assert_close(what: &str, found: &[Tensor], expected: &[Tensor], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.dims(), expected.dims(), "{what}: result {index}");
        let [found, expected] = [found, expected].map(|t| t.to_dtype(DType::F64).unwrap());
        let largest = |t: &Tensor| t.abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
        let (worst, scale) = (largest(&(found - &expected).unwrap()), largest(&expected).max(1.));
        assert!(
            worst <= tolerance * scale,
            "{what}, seed {SEED}: result {index} differs by {worst:.1e} of {scale:.1e}"
        );
    }
}

#[test]
fn the_composed_form_of_every_operation_is_the_loop_in_f64_and_f32() {
    for case in cases() {
        for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 5e-6)] {
            let what = format!("{}, {dtype:?}", case.name);
            let (found, expected) = (composed(|| case.run(dtype)), case.run(dtype));
            let dtypes = |tensors: &[Tensor]| tensors.iter().map(Tensor::dtype).collect::<Vec<_>>();
            assert_eq!(dtypes(&found), dtypes(&expected), "{what}");
            assert_close(&what, &found, &expected, tolerance);
        }
    }
}

/// Narrow activations take the composed forms on CPU too.
#[test]
fn the_composed_form_of_every_operation_is_within_rounding_of_f64_in_f16_and_bf16() {
    for case in cases() {
        let expected = case.run(DType::F64);
        assert_close(&format!("{}, f16", case.name), &case.run(DType::F16), &expected, 1e-2);
        if !case.matrices {
            assert_close(&format!("{}, bf16", case.name), &case.run(DType::BF16), &expected, 5e-2);
        }
    }
}
