//! What a group of ranks owes a learner when something goes wrong: one error, the right rank, no hang, no thread left.
//!
//! The tests run one at a time, so that the threads of one are not taken for another's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device, Tensor};
use collective::{Algorithm, Cause, Communicator, Error, Failure, Options, Rank, ReduceOp, launch};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// What is over at once takes at most this: detection is by events, so the figure only allows for a machine that runs
/// other programs first.
const STANDSTILL: Duration = Duration::from_secs(10);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    static QUIET: Once = Once::new();
    // Panics of ranks are part of the tests; those of the tests themselves are shown.
    QUIET.call_once(|| {
        let show = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            if !name.starts_with("rank ") {
                show(info);
            }
        }));
    });
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ranks' threads alive in this process; 0 where the system does not list them.
fn rank_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    // The system cuts names to 15 characters.
    let of_ranks = ["rank ", "launch of rank", "communication o"];
    names.filter(|name| of_ranks.iter().any(|start| name.starts_with(start))).count()
}

/// Ranks' threads that do not go away. A thread is listed for a moment after its work is done; and a list that is read
/// while others end may lack some, so that only the third without any counts.
fn survivors() -> usize {
    let deadline = Instant::now() + STANDSTILL;
    let (mut alive, mut none) = (rank_threads(), 0);
    while none < 3 && Instant::now() < deadline {
        none = if alive == 0 { none + 1 } else { 0 };
        std::thread::yield_now();
        alive = rank_threads();
    }
    if none < 3 { alive.max(1) } else { 0 }
}

/// Launches `body`, which must fail, under a watchdog of 30 s; returns the failure.
fn failure_of(
    world: usize,
    algorithm: Algorithm,
    body: impl Fn(&Rank) -> Result<(), Cause> + Send + Sync + 'static,
) -> std::sync::Arc<Failure> {
    let options = Options { algorithm, ..Options::default() };
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(launch(world, &options, body)));
    let outcome = wait.recv_timeout(Duration::from_secs(30)).expect("still running after 30 s: a hang");
    thread.join().unwrap().unwrap();
    assert_eq!(survivors(), 0, "threads survive");
    match outcome {
        Err(Error::Failed(failure)) => failure,
        other => panic!("one failure was expected, not {other:?}"),
    }
}

fn tensor(length: usize) -> Tensor {
    Tensor::zeros(length, DType::F32, &Device::Cpu).unwrap()
}

/// SplitMix64.
fn draw(state: &mut u64, end: usize) -> usize {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) % end as u64) as usize
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Panic,
    Error,
    Shape,
    Dtype,
    Reduction,
    Operation,
    EarlyReturn,
    PanicWithHandle,
}

const FAULTS: [Fault; 8] = [
    Fault::Panic,
    Fault::Error,
    Fault::Shape,
    Fault::Dtype,
    Fault::Reduction,
    Fault::Operation,
    Fault::EarlyReturn,
    Fault::PanicWithHandle,
];

/// One collective operation per step, blocking or not; at its step, the victim does something else. Returns whether it
/// goes on.
fn step(group: &dyn Communicator, style: usize, fault: Option<Fault>) -> Result<bool, Cause> {
    let (good, sum) = (tensor(100), ReduceOp::Sum);
    match fault {
        None if style == 0 => drop(group.start_all_reduce(&good, sum)?.wait()?),
        None => drop(group.all_reduce(&good, sum)?),
        Some(Fault::Panic) => panic!("a fault of the test"),
        Some(Fault::Error) => return Err("a fault of the test".into()),
        Some(Fault::Shape) => drop(group.all_reduce(&tensor(99), sum)?),
        Some(Fault::Dtype) => drop(group.all_reduce(&good.to_dtype(DType::F64)?, sum)?),
        Some(Fault::Reduction) => drop(group.all_reduce(&good, ReduceOp::Max)?),
        Some(Fault::Operation) => drop(group.all_gather(&good, 0)?),
        Some(Fault::EarlyReturn) => return Ok(false),
        Some(Fault::PanicWithHandle) => {
            let _under_way = group.start_all_reduce(&good, sum)?;
            panic!("a fault of the test");
        }
    }
    Ok(true)
}

#[test]
fn two_hundred_random_failures_end_as_one_error_that_names_the_right_rank() {
    let _alone = alone();
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut random = seed;
    for case in 0..200 {
        let fault = FAULTS[draw(&mut random, FAULTS.len())];
        let algorithm = Algorithm::ALL[draw(&mut random, 4)];
        let world = 2 + draw(&mut random, 5);
        let (victim, at, style) = (draw(&mut random, world), draw(&mut random, 5), draw(&mut random, 3));
        let start = Instant::now();
        let failure = failure_of(world, algorithm, move |rank| {
            // Style 2: the victim's group is a sub-group of at least two; the others go about their own business.
            let world = rank.communicator();
            let half = if world.size() > 3 { world.split(rank.rank() % 2, 0)? } else { world.split(0, 0)? };
            let group = if style == 2 { &half } else { world };
            for number in 0..5 {
                let fault = (rank.rank() == victim && number == at).then_some(fault);
                if !step(group.as_ref(), style, fault)? {
                    return Ok(());
                }
            }
            world.barrier()?;
            Ok(())
        });
        let text = failure.to_string();
        let case = format!(
            "case {case}, seed {seed}: {fault:?} of rank {victim} of {world}, {algorithm}, style {style}: {text}"
        );
        assert!(start.elapsed() < STANDSTILL, "{:?}, {case}", start.elapsed());
        assert!(text.contains(&format!("rank {victim}")), "{case}");
        match (&*failure, fault) {
            (Failure::Panic { rank, message }, Fault::Panic | Fault::PanicWithHandle) => {
                assert_eq!((*rank, message.as_str()), (victim, "a fault of the test"), "{case}");
            }
            (Failure::Error { rank, cause }, Fault::Error) => {
                assert_eq!((*rank, cause.to_string().as_str()), (victim, "a fault of the test"), "{case}");
            }
            (Failure::Deadlock { finished, .. }, Fault::EarlyReturn) => assert_eq!(*finished, Some(victim), "{case}"),
            (
                Failure::Disagreement { asked, .. },
                Fault::Shape | Fault::Dtype | Fault::Reduction | Fault::Operation,
            ) => {
                let (_, call) = asked.iter().find(|(rank, _)| *rank == victim).expect(&case);
                let agreeing = asked.iter().filter(|(_, other)| other.agrees_with(call)).count();
                assert_eq!(agreeing, 1, "only the victim asked for it, {case}");
                assert!(asked.len() > 1, "{case}");
            }
            _ => panic!("another failure: {case}"),
        }
    }
}

#[test]
fn a_disagreement_says_which_rank_asked_for_what() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        let failure = failure_of(3, algorithm, |rank| {
            let group = rank.communicator();
            // Rank 2 comes last, so that it is known to be the odd one out.
            if rank.rank() == 2 {
                std::thread::sleep(Duration::from_millis(100));
                group.broadcast(&tensor(4), 1)?;
            } else {
                group.all_reduce(&tensor(4), ReduceOp::Sum)?;
            }
            Ok(())
        });
        let text = failure.to_string();
        assert!(text.contains("rank 2 asked for broadcast(f32 [4] root 1)"), "{text}");
        assert!(text.contains("rank 0 asked for all_reduce(f32 [4] Sum)"), "{text}");
        assert_eq!(failure.rank(), 2);
    }
}

/// Asserts a circle through exactly `ranks`.
fn assert_circle(failure: &Failure, ranks: &[usize]) {
    let Failure::Deadlock { waits, finished: None } = failure else { panic!("no circle: {failure}") };
    let mut found: Vec<_> = waits.iter().map(|wait| wait.rank).collect();
    for (wait, next) in waits.iter().zip(waits.iter().cycle().skip(1)) {
        assert_eq!(wait.peer, next.rank, "{failure}");
    }
    found.sort_unstable();
    assert_eq!(found, ranks, "{failure}");
}

#[test]
fn ranks_that_wait_for_each_other_are_a_deadlock() {
    let _alone = alone();
    let two_receives = failure_of(2, Algorithm::Ring, |rank| {
        rank.communicator().recv(1 - rank.rank())?;
        Ok(())
    });
    assert_circle(&two_receives, &[0, 1]);
    assert!(
        two_receives.to_string().contains("rank 0 waits in recv(from 1) of group [0, 1] for rank 1"),
        "{two_receives}"
    );

    // On an engine with buffers this would pass, and hang on the next.
    let two_sends =
        failure_of(2, Algorithm::Direct, |rank| Ok(rank.communicator().send(&tensor(1), 1 - rank.rank())?));
    assert_circle(&two_sends, &[0, 1]);

    let a_circle_beside_a_bystander = failure_of(4, Algorithm::Ring, |rank| {
        if rank.rank() < 3 {
            rank.communicator().recv((rank.rank() + 1) % 3)?;
        }
        rank.communicator().barrier()?;
        Ok(())
    });
    assert_circle(&a_circle_beside_a_bystander, &[0, 1, 2]);
}

#[test]
fn a_deadlock_across_groups_is_found() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        let swapped = failure_of(3, algorithm, |rank| {
            let world = rank.communicator();
            let pair = world.split(usize::from(rank.rank() == 2), 0)?;
            match rank.rank() {
                0 => pair.all_reduce(&tensor(3), ReduceOp::Sum)?,
                _ => world.all_reduce(&tensor(3), ReduceOp::Sum)?,
            };
            Ok(())
        });
        let Failure::Deadlock { waits, .. } = &*swapped else { panic!("{swapped}") };
        assert!(waits.iter().any(|wait| wait.group == [0, 1] && wait.rank == 0 && wait.peer == 1), "{swapped}");
    }
}

#[test]
fn a_deadlock_of_operations_under_way_is_found() {
    let _alone = alone();
    let failure = failure_of(2, Algorithm::Ring, |rank| {
        let group = rank.communicator();
        let first = group.start_recv(1 - rank.rank())?;
        let second = group.start_send(&tensor(2), 1 - rank.rank())?;
        first.wait()?;
        Ok(second.wait()?)
    });
    assert_circle(&failure, &[0, 1]);
}

#[test]
fn a_message_and_a_collective_do_not_meet() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        let failure = failure_of(2, algorithm, |rank| {
            let group = rank.communicator();
            if rank.rank() == 0 {
                group.send(&tensor(1), 1)?
            } else {
                drop(group.all_reduce(&tensor(1), ReduceOp::Sum)?)
            }
            Ok(())
        });
        assert_circle(&failure, &[0, 1]);
    }
}

#[test]
fn a_rank_that_computes_for_long_is_not_taken_for_dead() {
    let _alone = alone();
    for algorithm in Algorithm::ALL {
        let options = Options { algorithm, ..Options::default() };
        let done = launch(3, &options, |rank| {
            for slow in 0..3 {
                if rank.rank() == slow {
                    std::thread::sleep(Duration::from_millis(50));
                }
                rank.communicator().all_reduce(&tensor(10), ReduceOp::Sum)?;
            }
            Ok::<_, Error>(rank.rank())
        });
        assert_eq!(done.unwrap(), [0, 1, 2]);
    }
}

#[test]
fn a_blocked_rank_stops_soon_after_another_fails_and_a_computing_one_at_its_next_call() {
    let _alone = alone();
    let failure = failure_of(3, Algorithm::Ring, |rank| {
        let start = Instant::now();
        match rank.rank() {
            0 => {
                std::thread::sleep(Duration::from_millis(50));
                return Err("out of luck".into());
            }
            1 => {
                let error = rank.communicator().recv(0).unwrap_err();
                assert!(start.elapsed() < STANDSTILL, "{:?}", start.elapsed());
                assert!(matches!(error, Error::Stopped { rank: 1, .. }), "{error}");
            }
            _ => {
                std::thread::sleep(Duration::from_millis(150));
                let error = rank.communicator().split(0, 0).err().unwrap();
                assert!(error.to_string().contains("rank 0 failed: out of luck"), "{error}");
            }
        }
        Ok(())
    });
    assert_eq!(failure.to_string(), "rank 0 failed: out of luck");
}

#[test]
fn a_call_without_meaning_is_refused_with_what_would_be_legal() {
    let _alone = alone();
    launch(2, &Options::default(), |rank| {
        let group = rank.communicator();
        let refused = |outcome: Result<(), Error>, hint: &str| {
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains(hint), "{text}");
        };
        let matrix = tensor(4).reshape((2, 2)).unwrap();
        refused(group.send(&tensor(1), 2), "ranks 0 to 1");
        refused(group.send(&tensor(1), rank.rank()), "wait for itself");
        refused(group.broadcast(&tensor(1), 5).map(drop), "root = 5");
        refused(group.all_gather(&tensor(1), 1).map(drop), "1 dimensions");
        refused(group.all_to_all(&[tensor(1)]).map(drop), "one for each of 2 ranks");
        refused(group.all_reduce_in_place(&matrix.t().unwrap(), ReduceOp::Sum), "contiguous");
        refused(
            group.barrier().and(group.send(&tensor(1).to_dtype(DType::U8).unwrap(), 1 - rank.rank())),
            "u8 does not travel",
        );
        group.barrier()
    })
    .unwrap();
}

#[test]
fn a_launch_that_cannot_work_is_refused_before_it_begins() {
    let _alone = alone();
    let refused = |world: usize, options: Options, hint: &str| {
        let text = launch(world, &options, |_| Ok::<_, Error>(())).unwrap_err().to_string();
        assert!(text.contains(hint), "{text}");
    };
    let device = collective::Roofline { peak: 1e12, bandwidth: 1e12, efficiency: 0.5 };
    let roofline = collective::ClockKind::Roofline(device);
    refused(0, Options::default(), "at least 1");
    refused(2, Options { stack: 1000, ..Options::default() }, "64 KiB");
    refused(
        2,
        Options { algorithm: Algorithm::Direct, clock: roofline, ..Options::default() },
        "ring, tree or hierarchical",
    );
    refused(2000, Options::default(), "no ledger is left");
    let mut options = Options::default();
    options.topology.ranks_per_node = 0;
    refused(2, options, "ranks per node");
    assert_eq!(survivors(), 0);
}
