//! Gradients of every legal schedule, on 16 layers in f64.

use super::support::{batch, config, cut, difference, load, step};
use candle_core::Device;
use ch4_pipeline_parallel::engine::{MicroBatch, Pipeline};
use ch4_pipeline_parallel::schedule::Kind;
use collective::Options;
use decoder::Context;
use decoder::random::Rng;
use decoder::split::Split;
use std::time::{SystemTime, UNIX_EPOCH};
use training::{Named, clip};

#[test]
fn every_legal_schedule_gives_the_gradient_of_one_device() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let (mut covered, mut worst, mut worst_norm) = (0, 0.0f64, 0.0f64);
    for tied in [false, true] {
        let config = config(tied, 16);
        let batch = batch(&config, 16, Rng::new(seed).bits());
        let whole = load(&config, seed, &Split::whole());
        let (loss, expected) = lab::gradients::gradients(&whole, &Context::inference(), &batch).unwrap();
        let expected_norm = clip::global_norm(&expected, 0).unwrap();
        assert!(expected_norm > 1e-3, "seed {seed}: a gradient of {expected_norm} proves nothing");
        for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::Dualpipe) {
            for p in [2, 3, 4, 8] {
                for m in [1, 2, 4, 7, 8, 16] {
                    let Ok(schedule) = kind.schedule(p, m, 2) else { continue };
                    let what = format!("{} pp {p} m {m} tied {tied} seed {seed}", kind.name());
                    let pipeline = Pipeline::new(schedule, cut(kind, p, &config).unwrap()).unwrap();
                    let parts = MicroBatch::split_sequences(&batch, m, &Device::Cpu).unwrap();
                    let ranks =
                        step(&pipeline, &config, seed, &parts, batch.targets(), &Options::default()).expect(&what);
                    let mut gathered = Named::new();
                    for (r, outcome) in ranks.outcomes.iter().enumerate() {
                        for (name, gradient) in &outcome.gradients {
                            if let Some(other) = gathered.insert(name.clone(), gradient.clone()) {
                                // The two copies of a tied embedding, equal to the last bit.
                                let copies = [other, gradient.clone()]
                                    .map(|t| t.flatten_all().unwrap().to_vec1::<f64>().unwrap());
                                assert!(tied && copies[0] == copies[1], "{what}: {name}");
                            }
                        }
                        let last = r == pipeline.stages().last();
                        assert_eq!(outcome.loss.is_some(), last, "{what}: only the last stage has a loss");
                        if let Some(own) = outcome.loss {
                            assert!((own.mean() - loss).abs() < 1e-12, "{what}: loss {} {loss}", own.mean());
                        }
                        assert_eq!(outcome.peak_in_flight, pipeline.peaks().in_flight[r], "{what}: in flight on {r}");
                        assert_eq!(outcome.peak_held, pipeline.peaks().held[r], "{what}: held on {r}");
                        worst_norm = worst_norm.max((ranks.norms[r] - expected_norm).abs() / expected_norm);
                    }
                    worst = worst.max(difference(&gathered, &expected));
                    assert!(worst <= 1e-9, "{what}: gradients differ by {worst}");
                    assert!(worst_norm <= 1e-12, "{what}: norms {:?}, one device {expected_norm}", ranks.norms);
                    covered += 1;
                }
            }
        }
    }
    println!(
        "legal: p in 2, 3, 4, 8; m in 1, 2, 4, 7, 8, 16; 16 layers, 2 chunks per stage where there are chunks; and"
    );
    for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::Dualpipe) {
        println!("  {}: {}", kind.name(), kind.rule());
    }
    println!(
        "{covered} cases, tied and untied; largest difference of a gradient {worst:.1e}, of a norm {worst_norm:.1e}"
    );
    // Six kinds take all 24 pairs, the interleaved one 9 of them.
    assert_eq!(covered, 2 * (6 * 24 + 9));
}
