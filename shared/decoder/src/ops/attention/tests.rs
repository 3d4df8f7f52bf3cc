#![allow(clippy::unwrap_used)]
use super::*;
use candle_core::{DType, Device};

fn worst(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap()
}

fn normal(shape: (usize, usize, usize, usize)) -> Tensor {
    Tensor::randn(0f64, 1., shape, &Device::Cpu).unwrap()
}

/// Cases: causal training, a decode step, a window, padding, more queries than one block.
fn cases() -> Vec<(Visible, usize)> {
    let window = |queries: usize, size: usize| (0..queries).map(move |q| (q + 1usize).saturating_sub(size)..q + 1);
    vec![
        (Visible::causal(2, 7), 7),
        (Visible::new(1, vec![0..9, 0..4]), 9),
        (Visible::new(1, vec![3..26, 0..1]), 26),
        (Visible::new(70, window(70, 5).chain(window(70, 66)).collect()), 70),
        (Visible::new(3, vec![4..5, 3..6, 0..0, 0..1, 0..0, 0..0]), 6),
    ]
}

#[test]
fn the_loops_and_the_composed_form_agree_forward_and_backward() {
    for (heads, kv_heads, width) in [(4, 4, 6), (4, 2, 20), (6, 1, 9)] {
        for (visible, keys) in cases() {
            let q = normal((2, visible.queries(), heads, width));
            let (k, v) =
                (normal((2, kv_heads, keys, width)), normal((2, keys, kv_heads, width)).transpose(1, 2).unwrap());
            let sizes = Sizes::of(&q, &k, &v, &visible).unwrap();
            let out = forward(&q, &k, &v, &visible, sizes, 0.4).unwrap();
            let out2 = composed::forward(&q, &k, &v, &visible, sizes, 0.4).unwrap();
            assert!(worst(&out, &out2) < 1e-13, "{visible:?}: {}", worst(&out, &out2));
            let dy = normal((2, visible.queries(), heads, width));
            let gradients = backward([&q, &k, &v], &out, &dy, &visible, sizes, 0.4).unwrap();
            let composed = composed::backward([&q, &k, &v], &dy, &visible, sizes, 0.4).unwrap();
            for (name, (a, b)) in ["q", "k", "v"].iter().zip(gradients.iter().zip(&composed)) {
                assert!(worst(a, b) < 1e-12, "{name}, {visible:?}: {}", worst(a, b));
            }
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    for (queries, keys) in [(150, 150), (1, 2000)] {
        let visible = Visible::new(queries, (keys - queries..keys).map(|last| 0..last + 1).collect());
        let (q, k, v) = (normal((1, queries, 6, 16)), normal((1, 2, keys, 16)), normal((1, 2, keys, 16)));
        let sizes = Sizes::of(&q, &k, &v, &visible).unwrap();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let out = forward(&q, &k, &v, &visible, sizes, 0.25).unwrap();
                let gradients = backward([&q, &k, &v], &out, &q, &visible, sizes, 0.25).unwrap();
                [&[out], &gradients[..]]
                    .concat()
                    .iter()
                    .map(|x| x.flatten_all().unwrap().to_vec1::<f64>().unwrap())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(with(1), with(3), "{queries} queries");
    }
}

#[test]
fn a_query_that_sees_nothing_gives_zeros_not_nan() {
    let visible = Visible::new(2, vec![0..1, 0..0]);
    let (q, k) = (normal((1, 2, 2, 4)), normal((1, 2, 1, 4)));
    let out = attention(&Context::inference(), &q, &k, &k, &visible, 1.).unwrap();
    assert_eq!(out.get(0).unwrap().get(1).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap(), vec![0.; 8]);
    assert_eq!(out.dtype(), DType::F64);
}

/// Central differences of Σ out∘weights, through candle's own graph.
#[test]
fn gradients_are_those_of_finite_differences() {
    let visible = Visible::causal(1, 4);
    let (q, k, v, dy) = (normal((1, 4, 2, 3)), normal((1, 1, 4, 3)), normal((1, 1, 4, 3)), normal((1, 4, 2, 3)));
    let sizes = Sizes::of(&q, &k, &v, &visible).unwrap();
    let value = |q: &Tensor, k: &Tensor, v: &Tensor| {
        let out = forward(q, k, v, &visible, sizes, 0.7).unwrap();
        (out * &dy).unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap()
    };
    let out = forward(&q, &k, &v, &visible, sizes, 0.7).unwrap();
    let gradients = backward([&q, &k, &v], &out, &dy, &visible, sizes, 0.7).unwrap();
    let inputs = [&q, &k, &v];
    for (which, gradient) in gradients.iter().enumerate() {
        let gradient = gradient.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        for (index, analytic) in gradient.iter().enumerate() {
            let moved = |step: f64| {
                let mut data = inputs[which].flatten_all().unwrap().to_vec1::<f64>().unwrap();
                data[index] += step;
                let changed = Tensor::from_vec(data, inputs[which].shape(), &Device::Cpu).unwrap();
                let mut all = inputs.map(Clone::clone);
                all[which] = changed;
                value(&all[0], &all[1], &all[2])
            };
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((numeric - analytic).abs() < 1e-8, "input {which}, element {index}: {numeric} against {analytic}");
        }
    }
}
