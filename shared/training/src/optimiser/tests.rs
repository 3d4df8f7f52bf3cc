//! The optimiser against a plain f64 re-implementation, and the fused against the composed form.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::clip;
use candle_core::Device::Cpu;
use decoder::random::Rng;
use half::bf16;

const SHAPES: [(&str, &[usize]); 5] =
    [("bias", &[37]), ("embed", &[61, 17]), ("empty", &[0]), ("proj", &[3, 5, 7]), ("scalar", &[])];

fn draw(random: &mut Rng, shape: &[usize], spread: f64) -> Tensor {
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| random.normal() * spread).collect();
    Tensor::from_vec(values, shape, &Cpu).unwrap()
}

fn draw_all(random: &mut Rng, dtype: DType, spread: f64) -> Named {
    SHAPES
        .iter()
        .map(|(name, shape)| (Arc::from(*name), draw(random, shape, spread).to_dtype(dtype).unwrap()))
        .collect()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

/// AdamW as in the paper (with PyTorch's decay), number by number.
struct Plain {
    p: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
}

impl Plain {
    fn new(p: Vec<f64>) -> Self {
        Self { m: vec![0.0; p.len()], v: vec![0.0; p.len()], p }
    }

    fn step(&mut self, gradient: &[f64], settings: &AdamW, t: i32, rate: f64, decays: bool) {
        for (i, &g) in gradient.iter().enumerate() {
            if decays {
                self.p[i] -= rate * settings.weight_decay * self.p[i];
            }
            self.m[i] = settings.beta1 * self.m[i] + (1.0 - settings.beta1) * g;
            self.v[i] = settings.beta2 * self.v[i] + (1.0 - settings.beta2) * g * g;
            let m_hat = self.m[i] / (1.0 - settings.beta1.powi(t));
            let v_hat = self.v[i] / (1.0 - settings.beta2.powi(t));
            self.p[i] -= rate * m_hat / (v_hat.sqrt() + settings.epsilon);
        }
    }
}

/// 50 steps with changing rates and scales; the largest difference to the plain form.
fn drift(dtype: DType, decay: Decay, seed: u64) -> f64 {
    let mut random = Rng::new(seed);
    let settings = AdamW { decay, ..AdamW::default() };
    let mut optimiser = Optimiser::new(Rule::AdamW(settings.clone())).unwrap();
    let parameters = draw_all(&mut random, dtype, 1.0);
    let mut plain: BTreeMap<_, _> = parameters.iter().map(|(name, p)| (name.clone(), Plain::new(values(p)))).collect();
    for t in 1..=50 {
        let gradients = draw_all(&mut random, dtype, 1e-2);
        let (rate, scale) = (1e-3 * (1.0 + random.uniform()), random.uniform());
        optimiser.step(&parameters, &gradients, rate, scale).unwrap();
        for (name, gradient) in &gradients {
            let scaled: Vec<f64> = values(gradient).iter().map(|g| g * scale).collect();
            let decays = settings.decay.applies_to(name, gradient);
            plain.get_mut(name).unwrap().step(&scaled, &settings, t, rate, decays);
        }
    }
    let differences = parameters.iter().flat_map(|(name, p)| {
        values(p).into_iter().zip(plain[name].p.clone()).map(|(a, b)| (a - b).abs()).collect::<Vec<_>>()
    });
    differences.fold(0.0, f64::max)
}

#[test]
fn adamw_is_the_papers_formula_for_50_random_steps() {
    for seed in 0..4 {
        for decay in [Decay::All, Decay::Matrices, Decay::Only(["bias".into(), "proj".into()].into())] {
            let wide = drift(DType::F64, decay.clone(), seed);
            assert!(wide < 1e-13, "f64, seed {seed}, {decay:?}: {wide:e}");
            let narrow = drift(DType::F32, decay.clone(), seed);
            assert!(narrow > 0.0 && narrow < 5e-6, "f32, seed {seed}, {decay:?}: {narrow:e}");
        }
    }
}

#[test]
fn the_fused_form_is_the_composed_form_bit_for_bit() {
    for dtype in [DType::F32, DType::F64] {
        let mut random = Rng::new(7);
        let step = AdamW::default().step(Time { time: 3, learning_rate: 1e-3, scale: 0.37 }, true);
        for (name, shape) in SHAPES {
            let make = |random: &mut Rng| draw(random, shape, 1.0).to_dtype(dtype).unwrap();
            let [p, m, g] = [(); 3].map(|()| make(&mut random));
            let v = make(&mut random).sqr().unwrap();
            let [p2, m2, v2] = [&p, &m, &v].map(|tensor| tensor.copy().unwrap());
            fused::adamw(&p, &m, &v, &g, &step).unwrap();
            composed::adamw(&p2, &m2, &v2, &g, &step).unwrap();
            for (what, a, b) in [("p", &p, &p2), ("m", &m, &m2), ("v", &v, &v2)] {
                assert_eq!(values(a), values(b), "{dtype:?} {name} {what}");
            }
            let step = SgdStep { scale: 0.37, learning_rate: 0.1 };
            fused::sgd(&p, &g, &step).unwrap();
            composed::sgd(&p2, &g, &step).unwrap();
            assert_eq!(values(&p), values(&p2), "{dtype:?} {name} SGD");
        }
    }
}

#[test]
fn sgd_moves_against_the_scaled_gradient_and_a_clone_sees_it() {
    let mut random = Rng::new(11);
    let parameters = draw_all(&mut random, DType::F64, 1.0);
    let gradients = draw_all(&mut random, DType::F64, 1.0);
    let of_model = parameters.clone();
    let before: Vec<_> = parameters.values().map(values).collect();
    Optimiser::new(Rule::Sgd).unwrap().step(&parameters, &gradients, 0.25, 0.5).unwrap();
    for ((after, before), gradient) in of_model.values().zip(before).zip(gradients.values()) {
        let expected: Vec<f64> = before.iter().zip(values(gradient)).map(|(p, g)| p - 0.125 * g).collect();
        assert_eq!(values(after), expected);
    }
}

#[test]
fn a_rank_that_owns_slices_takes_the_same_step() {
    let mut random = Rng::new(13);
    let rule = Rule::AdamW(AdamW { decay: Decay::Only(["w".into()].into()), ..AdamW::default() });
    let whole = draw(&mut random, &[6, 4], 1.0).to_dtype(DType::F32).unwrap();
    let sharded = whole.copy().unwrap();
    let mut one = Optimiser::new(rule.clone()).unwrap();
    let mut ranks: Vec<_> = (0..3).map(|_| Optimiser::new(rule.clone()).unwrap()).collect();
    for _ in 0..5 {
        let gradient = draw(&mut random, &[6, 4], 1.0).to_dtype(DType::F32).unwrap();
        let named = |tensor: Tensor| Named::from([("w".into(), tensor)]);
        one.step(&named(whole.clone()), &named(gradient.clone()), 1e-2, 1.0).unwrap();
        for (rank, optimiser) in ranks.iter_mut().enumerate() {
            // Views of the whole parameter, flat: the write goes into its storage.
            let slice = |tensor: &Tensor| named(tensor.flatten_all().unwrap().narrow(0, rank * 8, 8).unwrap());
            optimiser.step(&slice(&sharded), &slice(&gradient), 1e-2, 1.0).unwrap();
        }
    }
    assert_eq!(values(&whole), values(&sharded));
    assert_eq!(one.state_bytes(), ranks.iter().map(Optimiser::state_bytes).sum::<u64>());
    assert_eq!(one.state_bytes(), 6 * 4 * 8);
}

#[test]
fn bf16_weights_follow_f32_master_weights_and_do_not_lose_small_updates() {
    let mut random = Rng::new(17);
    let mut low = Optimiser::new(Rule::AdamW(AdamW::default())).unwrap();
    let mut full = Optimiser::new(Rule::AdamW(AdamW::default())).unwrap();
    let weights = draw_all(&mut random, DType::BF16, 1.0);
    let reference: Named = weights.iter().map(|(name, w)| (name.clone(), w.to_dtype(DType::F32).unwrap())).collect();
    for step in 0..50 {
        // Gradients in bf16 at first, then in f32: both are legal.
        let dtype = if step < 25 { DType::BF16 } else { DType::F32 };
        let gradients = draw_all(&mut random, dtype, 1.0);
        let wide = gradients.iter().map(|(name, g)| (name.clone(), g.to_dtype(DType::F32).unwrap())).collect();
        low.step(&weights, &gradients, 1e-5, 1.0).unwrap();
        full.step(&reference, &wide, 1e-5, 1.0).unwrap();
    }
    for (name, weight) in &weights {
        let rounded: Vec<f64> = values(&reference[name]).iter().map(|&w| bf16::from_f32(w as f32).to_f64()).collect();
        assert_eq!(values(weight), rounded, "{name}");
    }
    let elements: usize = weights.values().map(Tensor::elem_count).sum();
    assert_eq!(low.state_bytes(), 12 * elements as u64);
}

#[test]
fn a_restored_optimiser_goes_on_bit_for_bit() {
    for (dtype, rule) in [
        (DType::F32, Rule::AdamW(AdamW::default())),
        (DType::BF16, Rule::AdamW(AdamW::default())),
        (DType::BF16, Rule::Sgd),
    ] {
        let mut random = Rng::new(19);
        let parameters = draw_all(&mut random, dtype, 1.0);
        let mut first = Optimiser::new(rule.clone()).unwrap();
        for _ in 0..3 {
            first.step(&parameters, &draw_all(&mut random, dtype, 1.0), 1e-2, 1.0).unwrap();
        }
        let copies: Named = parameters.iter().map(|(name, p)| (name.clone(), p.copy().unwrap())).collect();
        let mut second = Optimiser::restore(rule, first.state()).unwrap();
        for _ in 0..3 {
            let gradients = draw_all(&mut random, dtype, 1.0);
            first.step(&parameters, &gradients, 1e-2, 1.0).unwrap();
            second.step(&copies, &gradients, 1e-2, 1.0).unwrap();
        }
        for (name, parameter) in &parameters {
            assert_eq!(values(parameter), values(&copies[name]), "{dtype:?} {name}");
        }
    }
}

#[test]
fn what_does_not_fit_is_named_and_changes_nothing() {
    let mut random = Rng::new(23);
    let parameters = draw_all(&mut random, DType::F32, 1.0);
    let gradients = draw_all(&mut random, DType::F32, 1.0);
    let before: Vec<_> = parameters.values().map(values).collect();
    let mut optimiser = Optimiser::new(Rule::AdamW(AdamW::default())).unwrap();
    let mut refused = |gradients: &Named, rate: f64, scale: f64, says: &str| {
        let message = optimiser.step(&parameters, gradients, rate, scale).unwrap_err().to_string();
        assert!(message.contains(says), "{message:?} does not say {says:?}");
        assert_eq!(parameters.values().map(values).collect::<Vec<_>>(), before, "{says}");
    };
    for rate in [0.0, -1e-3, f64::NAN, f64::INFINITY] {
        refused(&gradients, rate, 1.0, "learning rate");
    }
    refused(&gradients, 1e-3, f64::NAN, "scale");
    let changed = |name: &str, tensor: Option<Tensor>| {
        let mut gradients = gradients.clone();
        gradients.remove(name);
        gradients.extend(tensor.map(|tensor| (Arc::from(name), tensor)));
        gradients
    };
    refused(&changed("proj", None), 1e-3, 1.0, "proj");
    refused(&changed("extra", Some(draw(&mut random, &[2], 1.0))), 1e-3, 1.0, "extra");
    refused(&changed("scalar", Some(draw(&mut random, &[], 1.0))), 1e-3, 1.0, "f64");
    refused(&changed("bias", Some(Tensor::zeros(36, DType::F32, &Cpu).unwrap())), 1e-3, 1.0, "[36]");
    for rule in [
        AdamW { beta1: 1.0, ..AdamW::default() },
        AdamW { beta2: -0.1, ..AdamW::default() },
        AdamW { epsilon: 0.0, ..AdamW::default() },
        AdamW { weight_decay: f64::NAN, ..AdamW::default() },
    ] {
        assert!(Optimiser::new(Rule::AdamW(rule.clone())).is_err(), "{rule:?}");
    }
}

#[test]
fn the_norm_is_that_of_all_gradients_as_one_vector_and_clipping_limits_it() {
    for (seed, dtype) in [(29, DType::F32), (31, DType::F64), (37, DType::BF16)] {
        let mut random = Rng::new(seed);
        let gradients = draw_all(&mut random, dtype, 3.0);
        let expected = gradients.values().flat_map(values).map(|g| g * g).sum::<f64>().sqrt();
        let norm = clip::global_norm(&gradients, 0).unwrap();
        assert!((norm / expected - 1.0).abs() < 1e-13, "seed {seed}: {norm} for {expected}");
        let coefficient = clip::coefficient(norm, 0.5).unwrap();
        assert!((coefficient * norm - 0.5).abs() < 1e-6, "seed {seed}");
        assert_eq!(clip::coefficient(norm, norm * 2.0).unwrap(), 1.0, "a short gradient is not lengthened");
        // A transposed view has the same norm.
        let transposed = Named::from([("t".into(), gradients["embed"].t().unwrap())]);
        let view = clip::sum_of_squares(&transposed, 0).unwrap();
        let whole = clip::sum_of_squares(&Named::from([("w".into(), gradients["embed"].clone())]), 0).unwrap();
        assert!((view / whole - 1.0).abs() < 1e-13, "seed {seed}");
    }
    for max in [0.0, -1.0, f64::NAN] {
        assert!(clip::coefficient(1.0, max).is_err(), "{max}");
    }
}

#[test]
fn a_gradient_that_is_not_finite_names_the_step_and_the_first_tensor() {
    let mut random = Rng::new(41);
    for (bad, says) in [(f64::NAN, "NaN"), (f64::NEG_INFINITY, "infinity")] {
        let mut gradients = draw_all(&mut random, DType::F32, 1.0);
        for name in ["embed", "proj"] {
            let mut elements = values(&gradients[name]);
            let at = (random.uniform() * elements.len() as f64) as usize;
            elements[at] = bad;
            let shape = gradients[name].shape().clone();
            gradients
                .insert(name.into(), Tensor::from_vec(elements, shape, &Cpu).unwrap().to_dtype(DType::F32).unwrap());
        }
        let message = clip::global_norm(&gradients, 1234).unwrap_err().to_string();
        assert!(message.contains("1234") && message.contains("embed") && message.contains(says), "{message}");
    }
    assert!(clip::check_loss(f64::NAN, 8).unwrap_err().to_string().contains("step 8: the loss"));
    assert!(clip::check_loss(6.0, 8).is_ok());
}
