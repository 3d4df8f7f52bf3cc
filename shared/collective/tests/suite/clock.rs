//! The clock: what a textbook says a ring takes, the same on every run.

use crate::inputs::{Data, operand, watched};
use candle_core::DType;
use collective::{Algorithm, ClockKind, Error, Lane, Link, Options, ReduceOp, Roofline, Tier, Topology, launch};
use ledger::{Operation, Phase};

const LINK: Link = Link { name: "test", latency: 1e-3, bandwidth: 1e6 };
const SLOW: Link = Link { name: "slow", latency: 1e-2, bandwidth: 1e5 };
const DEVICE: Roofline = Roofline { peak: 1e9, bandwidth: 1e8, efficiency: 0.5 };

fn options(algorithm: Algorithm, ranks_per_node: usize) -> Options {
    let topology = Topology { ranks_per_node, within: LINK, between: SLOW };
    Options { algorithm, topology, clock: ClockKind::Roofline(DEVICE), timeline: true, ..Options::default() }
}

fn compute(flops: u64, bytes: u64) -> Operation {
    Operation { name: "linear", label: "w".into(), phase: Phase::Forward, shape: vec![1], flops, bytes }
}

fn close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= expected * 1e-12, "{what}: {found} s, not {expected} s");
}

#[test]
fn computing_takes_the_longer_of_flops_and_bytes_over_the_efficiency() {
    watched(30, || {
        launch(1, &options(Algorithm::Ring, 8), |rank| {
            rank.observer().observe(&compute(1_000_000, 10))?;
            close(rank.clock().now(), 2e-3, "FLOPs decide");
            rank.observer().observe(&compute(10, 1_000_000))?;
            close(rank.clock().now(), 2e-3 + 2e-2, "bytes decide");
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}

#[test]
fn a_ring_takes_two_p_minus_one_steps_of_latency_and_a_chunk() {
    watched(30, || {
        for size in [1, 2, 4, 8] {
            let times = launch(size, &options(Algorithm::Ring, 8), |rank| {
                let tensor = operand(Data::Dyadic, DType::F32, 1, rank.rank(), &[1000 * size]);
                rank.communicator().all_reduce(&tensor, ReduceOp::Sum)?;
                Ok::<_, Error>(rank.clock().now())
            });
            let expected = 2.0 * (size - 1) as f64 * (LINK.latency + 4000.0 / LINK.bandwidth);
            times.unwrap().into_iter().for_each(|time| close(time, expected, &format!("{size} ranks")));
        }
    });
}

#[test]
fn an_operation_under_way_hides_behind_computing() {
    watched(30, || {
        let times = launch(2, &options(Algorithm::Ring, 8), |rank| {
            let tensor = operand(Data::Dyadic, DType::F32, 1, rank.rank(), &[2000]);
            let pending = rank.communicator().start_all_reduce_in_place(&tensor, ReduceOp::Sum)?;
            rank.clock().advance("backward", 0.005);
            let computed = rank.clock().now();
            pending.wait()?;
            let waited = rank.clock().now();
            rank.communicator().barrier()?;
            Ok::<_, Error>((computed, waited, rank.clock().now()))
        });
        for (computed, waited, after) in times.unwrap() {
            close(computed, 0.005, "computing goes on");
            close(waited, 0.010, "two steps of 1 ms + 4 ms, 5 ms of them hidden");
            close(after, 0.011, "an empty message costs its latency");
        }
    });
}

#[test]
fn a_receiver_goes_on_no_earlier_than_the_message_arrives() {
    watched(30, || {
        let times = launch(3, &options(Algorithm::Ring, 2), |rank| {
            let (group, tensor) = (rank.communicator(), operand(Data::Dyadic, DType::F32, 1, 0, &[250]));
            match rank.rank() {
                0 => {
                    rank.clock().advance("forward", 1.0);
                    group.send(&tensor, 1)?;
                    group.send(&tensor, 2)?;
                }
                _ => drop(group.recv(0)?),
            }
            Ok::<_, Error>((rank.clock().now(), rank.clock().take_spans()))
        });
        let times = times.unwrap();
        close(times[1].0, 1.002, "1 ms of bytes, 1 ms of latency");
        close(times[2].0, 1.002 + 0.02, "over the slow link, after the first was there");
        let lanes: Vec<_> = times[0].1.iter().map(|span| (span.lane, span.name.as_str())).collect();
        let expected = [
            (Lane::Compute, "forward"),
            (Lane::Link(Tier::Within), "send to rank 1"),
            (Lane::Link(Tier::Between), "send to rank 2"),
        ];
        assert_eq!(lanes, expected);
    });
}

#[test]
fn messages_under_way_at_once_share_a_tiers_link_and_no_other() {
    watched(30, || {
        let times = launch(3, &options(Algorithm::Ring, 2), |rank| {
            let (group, tensor) = (rank.communicator(), operand(Data::Dyadic, DType::F32, 1, 0, &[250]));
            let mut times = Vec::new();
            if rank.rank() == 0 {
                let all = [1, 1, 2].map(|to| group.start_send(&tensor, to));
                for pending in all {
                    pending?.wait()?;
                    times.push(rank.clock().now());
                }
            } else {
                for _ in 0..3 - rank.rank() {
                    group.recv(0)?;
                    times.push(rank.clock().now());
                }
            }
            Ok::<_, Error>(times)
        });
        let times = times.unwrap();
        close(times[1][0], 0.002, "1 ms of bytes, 1 ms of latency");
        close(times[1][1], 0.003, "the second leaves when the first has left, not when it has arrived");
        close(times[2][0], 0.020, "10 ms and 10 ms over the other link, which was free at once");
        assert_eq!(times[0], [times[1][0], times[1][1], times[2][0]], "a sender that waits, waits for the arrival");
    });
}

#[test]
fn the_timeline_of_sixty_four_ranks_is_the_same_on_every_run() {
    watched(120, || {
        for algorithm in [Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical] {
            let run = || {
                launch(64, &options(algorithm, 8), |rank| {
                    let group = rank.communicator();
                    let column = group.split(rank.rank() % 8, 0)?;
                    let tensor = operand(Data::Dyadic, DType::F32, 1, rank.rank(), &[1000]);
                    for layer in 0..3 {
                        rank.observer().observe(&compute(1_000 * (rank.rank() as u64 + layer), 10))?;
                        let pending = column.start_all_reduce(&tensor, ReduceOp::Sum)?;
                        rank.observer().observe(&compute(50_000, 10))?;
                        group.all_reduce(&tensor, ReduceOp::Max)?;
                        pending.wait()?;
                    }
                    Ok::<_, Error>((rank.clock().now(), rank.clock().take_spans()))
                })
                .unwrap()
            };
            let (first, second) = (run(), run());
            assert!(first[0].0 > 0.0);
            for (rank, (first, second)) in first.iter().zip(&second).enumerate() {
                assert_eq!(first.0.to_bits(), second.0.to_bits(), "rank {rank}, {algorithm}");
                assert_eq!(first.1, second.1, "rank {rank}, {algorithm}");
            }
        }
    });
}

#[cfg(unix)]
#[test]
fn the_cpu_clock_counts_what_the_rank_computed_and_not_what_it_waited() {
    watched(60, || {
        let times = launch(2, &Options { clock: ClockKind::Cpu, ..Options::default() }, |rank| {
            if rank.rank() == 0 {
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            rank.communicator().barrier()?;
            Ok::<_, Error>(rank.clock().now())
        });
        for time in times.unwrap() {
            assert!(time < 0.1, "sleeping and waiting are no computing: {time} s");
        }
        let busy = launch(1, &Options { clock: ClockKind::Cpu, ..Options::default() }, |rank| {
            let start = std::time::Instant::now();
            while rank.clock().now() < 0.02 && start.elapsed().as_secs() < 20 {
                std::hint::black_box((0..10_000).sum::<u64>());
            }
            Ok::<_, Error>(rank.clock().now())
        });
        assert!(busy.unwrap()[0] >= 0.02);
    });
}
