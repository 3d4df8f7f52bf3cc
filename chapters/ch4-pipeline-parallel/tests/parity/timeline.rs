//! Predicted and run: times on the roofline clock, and bytes.

use super::support::{batch, config, cut, load, step};
use candle_core::Device;
use ch4_pipeline_parallel::engine::{MicroBatch, Pipeline, profile};
use ch4_pipeline_parallel::schedule::Kind;
use ch4_pipeline_parallel::simulate::{Links, simulate};
use collective::{ClockKind, Link, Options, Roofline, Topology};
use decoder::Context;
use decoder::split::Split;

#[test]
fn a_run_on_the_roofline_clock_takes_the_times_that_the_simulator_says() {
    let seed = 41;
    // Slow enough for seconds, with links that matter: 1e-9 is then far below what any mistake would make.
    let device = Roofline { peak: 1e5, bandwidth: 1e6, efficiency: 0.5 };
    let topology = Topology {
        ranks_per_node: 2,
        within: Link { name: "fast", latency: 1e-3, bandwidth: 1e5 },
        between: Link { name: "slow", latency: 1e-2, bandwidth: 2e4 },
    };
    let options = Options { clock: ClockKind::Roofline(device), topology, ..Options::default() };
    let config = config(true, 16);
    let batch = batch(&config, 16, seed);
    let whole = load(&config, seed, &Split::whole());
    let mut worst = 0.0f64;
    for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::Dualpipe) {
        for (p, m) in [(2, 8), (3, 7), (4, 8), (8, 16)] {
            let Ok(schedule) = kind.schedule(p, m, 2) else { continue };
            let what = format!("{} pp {p} m {m}", kind.name());
            let pipeline = Pipeline::new(schedule, cut(kind, p, &config).unwrap()).unwrap();
            let parts = MicroBatch::split_sequences(&batch, m, &Device::Cpu).unwrap();
            let costs = profile(&pipeline, &whole, &Context::inference(), &parts, device).unwrap();
            let simulated = simulate(pipeline.schedule(), &costs, &Links::Topology(topology)).unwrap();
            assert!(simulated.makespan() > 0.1, "{what}");
            let run = step(&pipeline, &config, seed, &parts, batch.targets(), &options).unwrap();
            for (r, outcome) in run.outcomes.iter().enumerate() {
                assert_eq!(outcome.intervals.len(), simulated.stages[r].len());
                for (ran, said) in outcome.intervals.iter().zip(&simulated.stages[r]) {
                    assert_eq!(ran.action, said.action);
                    let off = (ran.start - said.start).abs().max((ran.end - said.end).abs());
                    assert!(
                        off <= 1e-9,
                        "{what}: stage {r} {:?} ran {}..{}, simulated {}..{}",
                        ran.action,
                        ran.start,
                        ran.end,
                        said.start,
                        said.end
                    );
                    worst = worst.max(off);
                }
                assert_eq!(run.sent[r], simulated.sent[r], "{what}: bytes of stage {r}");
            }
        }
    }
    println!("largest difference of a time {worst:.1e} s");
}
