//! Each rule of sampling by its effect, and the draws against probabilities computed here.

use decoder::Error;
use decoder::generation::sampling::{Sampler, Sampling, argmax, margin};
use decoder::random::Rng;

const INFINITY: f32 = f32::INFINITY;

fn sampling(temperature: f64) -> Sampling {
    Sampling { temperature, ..Sampling::default() }
}

fn random_logits(rng: &mut Rng, vocab: usize) -> Vec<f32> {
    (0..vocab).map(|_| 2.0 * rng.normal() as f32).collect()
}

/// The probabilities that Hugging Face's `generate` would draw from: penalty, temperature, top-k, top-p, softmax;
/// written with sorting and full arrays.
fn probabilities(sampling: &Sampling, logits: &[f32], history: &[u32]) -> Vec<f64> {
    let mut scores: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
    let recent = history.iter().rev().take(sampling.repeat_last_n);
    let mut recent: Vec<_> = recent.map(|&id| id as usize).collect();
    recent.sort_unstable();
    recent.dedup();
    for id in recent {
        let penalty = f64::from(sampling.repeat_penalty);
        scores[id] = if scores[id] < 0.0 { scores[id] * penalty } else { scores[id] / penalty };
    }
    scores.iter_mut().for_each(|score| *score /= sampling.temperature);
    let softmax = |scores: &[f64]| {
        let exponentials: Vec<_> = scores.iter().map(|score| score.exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        exponentials.into_iter().map(|value| value / sum).collect::<Vec<_>>()
    };
    let ascending = |scores: &[f64]| {
        let mut order: Vec<_> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a)));
        order
    };
    if let Some(k) = sampling.top_k {
        let order = ascending(&scores);
        order[..order.len().saturating_sub(k)].iter().for_each(|&id| scores[id] = f64::NEG_INFINITY);
    }
    if let Some(p) = sampling.top_p {
        let probabilities = softmax(&scores);
        let order = ascending(&scores);
        let mut sum = 0.0;
        for &id in &order[..order.len() - 1] {
            sum += probabilities[id];
            if sum <= 1.0 - p {
                scores[id] = f64::NEG_INFINITY;
            }
        }
    }
    softmax(&scores)
}

#[test]
fn draws_have_the_probabilities_of_the_rules() {
    let plain = sampling(1.0);
    let settings = [
        plain.clone(),
        sampling(0.5),
        sampling(3.0),
        Sampling { top_k: Some(3), ..plain.clone() },
        Sampling { top_p: Some(0.7), ..plain.clone() },
        Sampling { top_p: Some(1.0), top_k: Some(1000), ..plain.clone() },
        Sampling { temperature: 1.5, top_k: Some(6), top_p: Some(0.8), ..plain.clone() },
        Sampling { repeat_penalty: 1.8, repeat_last_n: 4, top_p: Some(0.9), ..plain.clone() },
        Sampling { repeat_penalty: 0.6, ..plain },
    ];
    let mut rng = Rng::new(31);
    for (case, setting) in settings.into_iter().enumerate() {
        let logits = random_logits(&mut rng, 12);
        let history: Vec<_> = (0..9).map(|_| rng.below(12) as u32).collect();
        let expected = probabilities(&setting, &logits, &history);
        let draws = 40_000;
        let mut sampler = Sampler::new(Sampling { seed: case as u64, ..setting.clone() }).unwrap();
        let mut counts = vec![0_usize; logits.len()];
        for _ in 0..draws {
            counts[sampler.sample(&logits, &history).unwrap() as usize] += 1;
        }
        let (mut chi_squared, mut freedom) = (0.0, -1.0);
        for (id, (&count, &p)) in counts.iter().zip(&expected).enumerate() {
            if p == 0.0 {
                assert_eq!(count, 0, "token {id} must never be drawn: {setting:?}");
            } else {
                let mean = p * f64::from(draws);
                chi_squared += (count as f64 - mean).powi(2) / mean;
                freedom += 1.0;
            }
        }
        // Mean `freedom`, variance twice that; five deviations.
        let limit = freedom + 5.0 * f64::sqrt(2.0 * freedom) + 3.0;
        assert!(
            chi_squared < limit,
            "{setting:?}: chi² {chi_squared} > {limit}; counts {counts:?}, expected {expected:?}"
        );
    }
}

#[test]
fn top_p_on_a_large_vocabulary_keeps_exactly_the_nucleus() {
    // Larger than the first head that is sorted, flat and peaked.
    for (spread, p) in [(0.1, 0.5), (0.5, 0.9), (3.0, 0.95), (1.0, 0.999)] {
        let mut rng = Rng::new(37);
        let logits: Vec<_> = (0..5000).map(|_| (spread * rng.normal()) as f32).collect();
        let setting = Sampling { top_p: Some(p), ..sampling(1.0) };
        let expected = probabilities(&setting, &logits, &[]);
        let mut sampler = Sampler::new(setting).unwrap();
        let mut least = 1.0_f64;
        for _ in 0..3000 {
            let id = sampler.sample(&logits, &[]).unwrap() as usize;
            assert!(expected[id] > 0.0, "token {id} lies outside the nucleus of {p} at spread {spread}");
            least = least.min(expected[id]);
        }
        let kept = expected.iter().filter(|&&p| p > 0.0).count();
        let smallest = expected.iter().copied().filter(|&p| p > 0.0).fold(1.0, f64::min);
        assert!(least < 20.0 * smallest || kept < 3, "the rare tokens of the nucleus are drawn too ({kept} kept)");
    }
}

#[test]
fn greedy_takes_the_best_and_the_lowest_id_on_ties() {
    let mut greedy = Sampler::new(Sampling { top_k: Some(2), top_p: Some(0.1), ..sampling(0.0) }).unwrap();
    assert_eq!(greedy.sample(&[1.0, 3.0, 2.0, 3.0], &[]).unwrap(), 1);
    assert_eq!(greedy.sample(&[-0.0, 0.0], &[]).unwrap(), 0);
    assert_eq!(greedy.sample(&[-5.0, f32::NEG_INFINITY], &[]).unwrap(), 0);
    assert_eq!(argmax(&[1.0, 3.0, 2.0, 3.0], 0).unwrap(), 1);
    // Of equal ones, top-k keeps those with the lowest ids.
    let mut two = Sampler::new(Sampling { top_k: Some(2), ..sampling(1.0) }).unwrap();
    assert!((0..200).all(|_| two.sample(&[1.0; 9], &[]).unwrap() < 2));
    let mut small = Sampler::new(Sampling { top_p: Some(1e-9), ..sampling(1.0) }).unwrap();
    assert!((0..200).all(|_| small.sample(&[0.0, 1.0, 1.0], &[]).unwrap() == 1));
}

#[test]
fn a_low_temperature_is_greedy_in_the_limit_and_overflows_nothing() {
    let logits = random_logits(&mut Rng::new(41), 100);
    let best = argmax(&logits, 0).unwrap();
    for temperature in [1e-3, 1e-30, 1e-300, f64::MIN_POSITIVE] {
        let mut sampler = Sampler::new(sampling(temperature)).unwrap();
        assert!((0..100).all(|_| sampler.sample(&logits, &[]).unwrap() == best), "temperature {temperature}");
    }
    let mut flat = Sampler::new(sampling(1e300)).unwrap();
    let seen: std::collections::HashSet<_> = (0..200).map(|_| flat.sample(&[9.0, 0.0, -9.0], &[]).unwrap()).collect();
    assert_eq!(seen.len(), 3);
}

#[test]
fn the_penalty_counts_a_token_once_and_only_recent_ones() {
    let setting = Sampling { repeat_penalty: 2.0, repeat_last_n: 3, ..sampling(0.0) };
    let mut sampler = Sampler::new(setting).unwrap();
    // 4 / 2 = 2 stays above 1.5 even if it occurred three times.
    assert_eq!(sampler.sample(&[4.0, 1.5], &[0, 0, 0]).unwrap(), 0);
    assert_eq!(sampler.sample(&[4.0, 2.5], &[0]).unwrap(), 1);
    assert_eq!(sampler.sample(&[4.0, 7.0], &[0, 1, 1, 1]).unwrap(), 0, "0 occurred four tokens ago");
    assert_eq!(sampler.sample(&[-1.0, -1.5], &[0]).unwrap(), 1, "negative logits are multiplied");
    let error = sampler.sample(&[1.0, 2.0], &[2]).unwrap_err();
    assert!(error.to_string().contains("token 2 occurred, but there are only 2"), "{error}");
    // The only possible token stays possible.
    let mut strong = Sampler::new(Sampling { repeat_penalty: f32::MAX, ..sampling(1.0) }).unwrap();
    assert_eq!(strong.sample(&[f32::NEG_INFINITY, -2.0], &[0, 1]).unwrap(), 1);
}

#[test]
fn infinite_logits_win_evenly_and_logits_without_meaning_are_errors() {
    let mut sampler = Sampler::new(Sampling { top_k: Some(1), ..sampling(0.7) }).unwrap();
    let seen: std::collections::HashSet<_> =
        (0..100).map(|_| sampler.sample(&[INFINITY, 1.0, INFINITY], &[]).unwrap()).collect();
    assert_eq!(seen, [0, 2].into());
    for temperature in [0.0, 0.7] {
        let mut sampler = Sampler::new(sampling(temperature)).unwrap();
        assert_eq!(sampler.sample(&[3.0, INFINITY, 1.0], &[]).unwrap(), 1);
        let error = sampler.sample(&[1.0, f32::NAN, 2.0, f32::NAN], &[7, 8]).unwrap_err();
        assert!(matches!(error, Error::Logits { .. }));
        assert!(error.to_string().contains("at position 2, 2 of 4 are NaN, the first for token 1"), "{error}");
        for nothing in [&[][..], &[-INFINITY, -INFINITY]] {
            assert!(sampler.sample(nothing, &[]).unwrap_err().to_string().contains("is possible"));
        }
    }
    assert!(argmax(&[f32::NAN], 0).is_err());
}

#[test]
fn one_seed_is_one_text() {
    let draw = |seed| {
        let mut sampler = Sampler::new(Sampling { seed, ..sampling(1.0) }).unwrap();
        let mut logits = Rng::new(43);
        (0..50).map(|_| sampler.sample(&random_logits(&mut logits, 50), &[]).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn settings_without_meaning_name_their_flag() {
    let legal = [
        sampling(0.0),
        Sampling { top_k: Some(1), top_p: Some(1.0), repeat_penalty: 0.5, repeat_last_n: usize::MAX, ..sampling(2.0) },
        Sampling { repeat_last_n: 0, ..sampling(1.0) },
    ];
    legal.iter().for_each(|sampling| sampling.validate().unwrap());
    let temperatures = [-0.1, f64::NAN, f64::INFINITY].map(sampling);
    let top_ps = [0.0, -1.0, 1.01, f64::NAN].map(|p| Sampling { top_p: Some(p), ..sampling(1.0) });
    let penalties = [0.0, -1.0, f32::NAN, INFINITY].map(|repeat_penalty| Sampling { repeat_penalty, ..sampling(1.0) });
    let wrong = temperatures.into_iter().map(|sampling| ("--temperature", sampling));
    let wrong = wrong.chain(top_ps.into_iter().map(|sampling| ("--top-p", sampling)));
    let wrong = wrong.chain(penalties.into_iter().map(|sampling| ("--repeat-penalty", sampling)));
    let wrong = wrong.chain([
        ("--top-k", Sampling { top_k: Some(0), ..sampling(1.0) }),
        ("--repeat-last-n", Sampling { repeat_last_n: 0, repeat_penalty: 1.1, ..sampling(1.0) }),
    ]);
    for (flag, sampling) in wrong {
        match Sampler::new(sampling.clone()) {
            Err(Error::Setting { name, .. }) => assert_eq!(name, flag),
            other => panic!("{sampling:?} gave {other:?}"),
        }
    }
}

#[test]
fn the_margin_is_the_distance_of_the_two_best() {
    assert_eq!(margin(&[1.0, 5.0, 3.5]), Some(1.5));
    assert_eq!(margin(&[5.0, 1.0, 5.0]), Some(0.0));
    assert_eq!(margin(&[INFINITY, INFINITY, 0.0]), Some(0.0));
    assert_eq!(margin(&[INFINITY, 0.0]), Some(INFINITY));
    assert_eq!((margin(&[1.0]), margin(&[]), margin(&[1.0, f32::NAN])), (None, None, None));
}
