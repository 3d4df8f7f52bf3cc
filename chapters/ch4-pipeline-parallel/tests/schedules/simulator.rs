//! The simulator against an independent computation, and at scale.

use ch4_pipeline_parallel::schedule::{Action, Kind, Work};
use ch4_pipeline_parallel::simulate::{Costs, Links, Uniform, simulate};
use collective::{Link, Topology};
use decoder::random::Rng;
use std::collections::BTreeMap;
use std::time::Instant;

/// Other times for every (position, work, micro-batch), and messages with a size.
struct Uneven(u64);

impl Costs for Uneven {
    fn seconds(&self, position: usize, action: &Action) -> f64 {
        let key = (position as u64) << 32 | (action.micro_batch as u64) << 8 | action.work.letter() as u64;
        0.5 + (Rng::new(self.0 ^ key).bits() % 1000) as f64 / 1000.0
    }

    fn bytes(&self, micro_batch: usize) -> u64 {
        1000 + 100 * micro_batch as u64
    }
}

/// By relaxation: times go up until every rule holds. No worklist, no arrival tables.
#[test]
fn times_are_the_smallest_that_satisfy_every_rule() {
    let topology = Topology {
        ranks_per_node: 2,
        within: Link { name: "fast", latency: 0.01, bandwidth: 1e5 },
        between: Link { name: "slow", latency: 0.1, bandwidth: 2e3 },
    };
    for (seed, kind) in (5u64..).zip(Kind::ALL.into_iter().filter(|&kind| kind != Kind::Dualpipe)) {
        let (p, m) = (4, 8);
        let schedule = kind.schedule(p, m, 2).unwrap();
        let costs = Uneven(seed);
        let found = simulate(&schedule, &costs, &Links::Topology(topology)).unwrap();
        let position = |stage: usize, action: &Action| schedule.layout.position(p, stage, action.chunk);
        // End of each action, by (stage, index); all 0 at first.
        let mut ends: Vec<Vec<f64>> = schedule.stages.iter().map(|list| vec![0.0; list.len()]).collect();
        for round in 0.. {
            assert!(round < 1000);
            let mut arrivals: BTreeMap<(bool, usize, usize), f64> = BTreeMap::new();
            for (stage, list) in schedule.stages.iter().enumerate() {
                let mut free = [0.0f64; 2];
                for (action, &end) in list.iter().zip(&ends[stage]) {
                    let (gradient, next) = match (action.work, position(stage, action)) {
                        (Work::Forward, here) if here + 1 < schedule.positions() => (false, here + 1),
                        (Work::Backward | Work::InputGradient, here) if here > 0 => (true, here - 1),
                        _ => continue,
                    };
                    let to = schedule.layout.at(p, next, 0).0;
                    let arrival = if to == stage {
                        end
                    } else {
                        let slow = usize::from(stage / 2 != to / 2);
                        let link = [topology.within, topology.between][slow];
                        let passage = link.pass(end, free[slow], costs.bytes(action.micro_batch));
                        free[slow] = passage.free;
                        passage.arrival
                    };
                    arrivals.insert((gradient, action.micro_batch, next), arrival);
                }
            }
            let before = ends.clone();
            for (stage, list) in schedule.stages.iter().enumerate() {
                for (index, action) in list.iter().enumerate() {
                    let free = if index == 0 { 0.0 } else { before[stage][index - 1] };
                    let key = (action.work != Work::Forward, action.micro_batch, position(stage, action));
                    let arrival = match action.work {
                        Work::WeightGradient => 0.0,
                        _ => arrivals.get(&key).copied().unwrap_or(0.0),
                    };
                    ends[stage][index] = free.max(arrival) + costs.seconds(position(stage, action), action);
                }
            }
            if ends == before {
                break;
            }
        }
        for (stage, list) in found.stages.iter().enumerate() {
            for (interval, &end) in list.iter().zip(&ends[stage]) {
                assert!((interval.end - end).abs() < 1e-9, "{kind:?} seed {seed} stage {stage} {:?}", interval.action);
            }
        }
    }
}

#[test]
fn zb_v_has_no_bubble_but_its_start_when_all_three_parts_take_equally_long() {
    for (p, m) in [(2, 8), (4, 16), (8, 32)] {
        let schedule = Kind::ZbV.schedule(p, m, 2).unwrap();
        let costs = Uniform::new(1.0, 1.0, 1.0).over(2);
        let simulation = simulate(&schedule, &costs, &Links::Constant(0.0)).unwrap();
        assert!(simulation.bubble() < 1e-12, "{p} {m}: {}", simulation.bubble());
        assert!(simulation.peaks.in_flight.iter().all(|&peak| peak <= 2 * p));
    }
}

#[test]
fn a_large_pipeline_is_simulated_in_under_two_seconds() {
    for kind in [Kind::OneForwardOneBackward, Kind::ZbH2, Kind::Interleaved, Kind::ZbV] {
        let start = Instant::now();
        let schedule = kind.schedule(256, 4096, 2).unwrap();
        let costs = Uniform::new(1.0, 1.1, 0.9).over(schedule.layout.chunks());
        let simulation = simulate(&schedule, &costs, &Links::Constant(0.01)).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        println!("{}: {} actions, bubble {:.4}, {seconds:.2} s", kind.name(), schedule.len(), simulation.bubble());
        assert!(seconds < 2.0, "{}: {seconds} s", kind.name());
    }
}
