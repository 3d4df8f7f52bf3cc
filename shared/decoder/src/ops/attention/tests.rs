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
            let gradients = backward([&q, &k, &v], (&out, None), &dy, &visible, sizes, 0.4).unwrap();
            let composed = composed::backward([&q, &k, &v], (&out, None), &dy, &visible, sizes, 0.4).unwrap();
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
                let gradients = backward([&q, &k, &v], (&out, None), &q, &visible, sizes, 0.25).unwrap();
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
    let gradients = backward([&q, &k, &v], (&out, None), &dy, &visible, sizes, 0.7).unwrap();
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

/// Keys 0 to 10 and 11 to 25 apart, joined by their sums; a window and padding leave queries that see nothing of a part.
#[test]
fn two_parts_of_the_keys_join_to_attention_and_their_gradients_add_up_in_both_forms() {
    let ctx = Context::inference();
    let visible = Visible::new(4, vec![0..26, 3..9, 12..20, 0..0, 5..11, 0..1, 11..26, 25..26]);
    let (q, dy) = (normal((2, 4, 6, 8)), normal((2, 4, 6, 8)));
    let (k, v) = (normal((2, 3, 26, 8)), normal((2, 3, 26, 8)));
    let sizes = Sizes::of(&q, &k, &v, &visible).unwrap();
    let expected = forward(&q, &k, &v, &visible, sizes, 0.4).unwrap();
    let gradients = backward([&q, &k, &v], (&expected, None), &dy, &visible, sizes, 0.4).unwrap();
    let clamp = |range: &std::ops::Range<usize>, keys: &std::ops::Range<usize>| {
        let (start, end) = (range.start.max(keys.start), range.end.min(keys.end));
        if start < end { start - keys.start..end - keys.start } else { 0..0 }
    };
    let parts = [0..11, 11..26].map(|keys: std::ops::Range<usize>| {
        let ranges =
            (0..2).flat_map(|row| visible.row(row).iter().map(|range| clamp(range, &keys)).collect::<Vec<_>>());
        let cut = |tensor: &Tensor| tensor.narrow(2, keys.start, keys.len()).unwrap();
        (Visible::new(4, ranges.collect()), cut(&k), cut(&v))
    });
    for composed in [false, true] {
        let in_form = |work: &mut dyn FnMut()| if composed { crate::ops::real::composed(work) } else { work() };
        let mut joined: Option<(Tensor, Tensor)> = None;
        in_form(&mut || {
            for (visible, k, v) in &parts {
                let (out, sums) = attention_of_part(&ctx, [&q, k, v], visible, 0.4).unwrap();
                joined = Some(match joined.take() {
                    None => (out, sums),
                    Some((before, other)) => {
                        let all = (sums.exp().unwrap() + other.exp().unwrap())
                            .unwrap()
                            .log()
                            .unwrap()
                            .maximum(-1e30)
                            .unwrap();
                        let weigh = |out: &Tensor, sums: &Tensor| {
                            let weight = (sums - &all).unwrap().exp().unwrap().unsqueeze(3).unwrap();
                            out.broadcast_mul(&weight).unwrap()
                        };
                        ((weigh(&before, &other) + weigh(&out, &sums)).unwrap(), all)
                    }
                });
            }
        });
        let (out, sums) = joined.unwrap();
        assert!(worst(&out, &expected) < 1e-13, "composed {composed}: {}", worst(&out, &expected));
        let mut dq = q.zeros_like().unwrap();
        for (index, (visible, k, v)) in parts.iter().enumerate() {
            let mut part = None;
            in_form(&mut || {
                part = Some(attention_of_part_gradients(&ctx, [&q, k, v], (&out, &sums), &dy, visible, 0.4).unwrap());
            });
            let [q_part, dk, dv] = part.unwrap();
            dq = (dq + q_part).unwrap();
            let (first, count) = [(0, 11), (11, 15)][index];
            for (found, expected) in [(dk, &gradients[1]), (dv, &gradients[2])] {
                let expected = expected.narrow(2, first, count).unwrap();
                assert!(worst(&found, &expected) < 1e-12, "composed {composed}, part {index}");
            }
        }
        assert!(worst(&dq, &gradients[0]) < 1e-12, "composed {composed}: {}", worst(&dq, &gradients[0]));
    }
}
