//! Rotary frequencies, against the formulas in their other form (wavelengths) and against numbers computed elsewhere.

use super::Random;
use decoder::config::{Rope, RopeScaling};
use std::f64::consts::PI;

fn assert_close(found: &[f64], expected: &[f64], context: &str) {
    assert_eq!(found.len(), expected.len(), "{context}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found / expected - 1.0).abs() < 1e-13, "{context}: {found} for {expected}");
    }
}

fn wavelengths(theta: f64, head_dim: usize) -> Vec<f64> {
    (0..head_dim).step_by(2).map(|dim| 2.0 * PI * theta.powf(dim as f64 / head_dim as f64)).collect()
}

#[test]
fn unscaled_and_linear_frequencies_follow_the_paper() {
    let seed = 11;
    let mut random = Random(seed);
    for case in 0..50 {
        let (theta, head_dim, factor) = (random.real(10.0, 1e6), 2 * random.whole(1, 64), random.real(1.0, 32.0));
        let plain: Vec<f64> = wavelengths(theta, head_dim).iter().map(|length| 2.0 * PI / length).collect();
        let context = format!("seed {seed}, case {case}");
        let rope = Rope { theta, scaling: RopeScaling::None };
        assert_close(&rope.frequencies(head_dim).inverse, &plain, &context);
        let stretched: Vec<f64> = plain.iter().map(|frequency| frequency / factor).collect();
        let rope = Rope { theta, scaling: RopeScaling::Linear { factor } };
        assert_close(&rope.frequencies(head_dim).inverse, &stretched, &context);
        let divisors: Vec<f64> = plain.iter().map(|_| random.real(1.0, 8.0)).collect();
        let divided: Vec<f64> = plain.iter().zip(&divisors).map(|(frequency, divisor)| frequency / divisor).collect();
        let rope = Rope { theta, scaling: RopeScaling::Divisors { divisors } };
        assert_close(&rope.frequencies(head_dim).inverse, &divided, &context);
        assert_eq!(rope.frequencies(head_dim).factor, 1.0);
    }
}

#[test]
fn llama3_divides_long_waves_keeps_short_ones_and_blends_between() {
    let seed = 12;
    let mut random = Random(seed);
    for case in 0..50 {
        let (theta, head_dim, factor) = (random.real(1e3, 1e6), 2 * random.whole(1, 64), random.real(1.0, 32.0));
        let (low, original_context) = (random.real(0.5, 2.0), random.whole(16, 8192));
        let high = low + random.real(0.5, 4.0);
        let expected: Vec<f64> = wavelengths(theta, head_dim)
            .into_iter()
            .map(|length| {
                let smooth = (original_context as f64 / length - low) / (high - low);
                let divisor = if length > original_context as f64 / low {
                    factor
                } else if length < original_context as f64 / high {
                    1.0
                } else {
                    1.0 / ((1.0 - smooth) / factor + smooth)
                };
                2.0 * PI / length / divisor
            })
            .collect();
        let scaling = RopeScaling::Llama3 { factor, low_freq_factor: low, high_freq_factor: high, original_context };
        let found = Rope { theta, scaling }.frequencies(head_dim);
        assert_close(&found.inverse, &expected, &format!("seed {seed}, case {case}"));
        assert_eq!(found.factor, 1.0);
    }
}

#[test]
fn yarn_blends_over_pairs_between_fast_and_slow_rotations() {
    let seed = 13;
    let mut random = Random(seed);
    for case in 0..50 {
        let (theta, head_dim, factor) = (random.real(1e3, 1e6), 2 * random.whole(2, 64), random.real(1.0, 32.0));
        let (original_context, truncate) = (random.whole(256, 8192), case % 2 == 0);
        let beta_slow = random.real(0.5, 2.0);
        let beta_fast = beta_slow + random.real(8.0, 40.0);
        let attention_factor = random.real(0.5, 2.0);
        // The pair at which a wave fits `rotations` times: theta^(2 · pair / head_dim) = context / (2π · rotations).
        let pair =
            |rotations: f64| (original_context as f64 / (2.0 * PI * rotations)).log(theta) * head_dim as f64 / 2.0;
        let (mut low, mut high) = (pair(beta_fast), pair(beta_slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
        let expected: Vec<f64> = wavelengths(theta, head_dim)
            .into_iter()
            .enumerate()
            .map(|(index, length)| {
                let kept = 1.0 - ((index as f64 - low) / (high - low)).clamp(0.0, 1.0);
                2.0 * PI / (factor * length) * (1.0 - kept) + 2.0 * PI / length * kept
            })
            .collect();
        let scaling = RopeScaling::Yarn { factor, beta_fast, beta_slow, attention_factor, original_context, truncate };
        let found = Rope { theta, scaling }.frequencies(head_dim);
        for (found, expected) in found.inverse.iter().zip(&expected) {
            assert!((found / expected - 1.0).abs() < 1e-10, "seed {seed}, case {case}: {found} for {expected}");
        }
        assert_eq!(found.factor, attention_factor);
    }
}

#[test]
fn frequencies_are_the_numbers_computed_elsewhere() {
    let yarn = |theta, original_context, truncate| {
        let scaling = RopeScaling::Yarn {
            factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 1.138629436111989,
            original_context,
            truncate,
        };
        Rope { theta, scaling }.frequencies(16).inverse
    };
    let rounded = [
        1.0,
        0.23717082451262847,
        0.05,
        0.007905694150420948,
        0.0025,
        0.0007905694150420948,
        0.00025,
        7.905694150420948e-05,
    ];
    assert_close(&yarn(1e4, 64, true), &rounded, "yarn, rounded bounds");
    let exact = [
        1.0,
        0.1778279410038923,
        0.028613608811988895,
        0.0029867345117775513,
        0.00025,
        4.445698525097307e-05,
        7.905694150420949e-06,
        1.4058533129758728e-06,
    ];
    assert_close(&yarn(1e6, 4096, false), &exact, "yarn, exact bounds");
    let scaling =
        RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192 };
    let llama3 = [
        1.0,
        0.19392274474868576,
        0.03760603093086393,
        0.007292664737217109,
        0.0005248461609929547,
        3.428102195952591e-05,
        6.647869871181235e-06,
        1.2891731721515574e-06,
    ];
    assert_close(&Rope { theta: 5e5, scaling }.frequencies(16).inverse, &llama3, "llama3");
}
