//! The order of issue, handles, and ranks that share no memory.

use crate::inputs::{Data, numbers, operand, watched};
use crate::values::options;
use candle_core::{DType, Tensor};
use collective::{Algorithm, Error, ReduceOp, launch};

#[test]
fn operations_run_in_the_order_of_their_issue_whether_or_not_they_block() {
    watched(30, || {
        launch(3, &options(Algorithm::Ring), |rank| {
            let group = rank.communicator();
            let tensor = operand(Data::Dyadic, DType::F64, 7, rank.rank(), &[100]);
            let first = group.start_all_reduce_in_place(&tensor, ReduceOp::Sum)?;
            let second = group.start_all_reduce_in_place(&tensor, ReduceOp::Sum)?;
            // A blocking call queues up behind them.
            let third = group.all_reduce(&tensor, ReduceOp::Sum)?;
            let sum = |index: usize| -> f64 {
                (0..3).map(|rank| numbers(&operand(Data::Dyadic, DType::F64, 7, rank, &[100]))[index]).sum()
            };
            let expected: Vec<_> = (0..100).map(|index| sum(index) * 9.0).collect();
            assert_eq!(numbers(&third), expected);
            second.wait()?;
            first.wait()
        })
        .unwrap();
    });
}

#[test]
fn a_dropped_handle_waits() {
    watched(30, || {
        launch(2, &options(Algorithm::Ring), |rank| {
            let tensor = operand(Data::Dyadic, DType::F32, 7, rank.rank(), &[1000]);
            drop(rank.communicator().start_all_reduce_in_place(&tensor, ReduceOp::Max)?);
            let after = numbers(&tensor);
            rank.communicator().barrier()?;
            assert_eq!(numbers(&tensor), after, "nothing is written after the drop");
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}

#[test]
fn no_two_ranks_share_a_result_and_no_result_shares_its_operand() {
    watched(60, || {
        for algorithm in Algorithm::ALL {
            for size in [1, 2, 4] {
                launch(size, &options(algorithm), |rank| {
                    let group = rank.communicator();
                    let mine = operand(Data::Dyadic, DType::F32, 3, rank.rank(), &[8]);
                    let before = numbers(&mine);
                    let mut results = vec![
                        group.all_reduce(&mine, ReduceOp::Sum)?,
                        group.all_gather(&mine, 0)?,
                        group.reduce_scatter(&mine, ReduceOp::Sum, 0)?,
                        group.broadcast(&mine, 0)?,
                        group.send_recv(&mine, (rank.rank() + 1) % size, (rank.rank() + size - 1) % size)?,
                    ];
                    results.extend(group.all_to_all(&vec![mine.clone(); size])?);
                    group.barrier()?;
                    let mark = rank.rank() as f32 + 1000.0;
                    for result in &results {
                        result.slice_set(&Tensor::full(mark, result.dims(), result.device())?, 0, 0)?;
                    }
                    group.barrier()?;
                    for result in &results {
                        assert!(
                            numbers(result).iter().all(|&value| value == f64::from(mark)),
                            "{algorithm}, {size} ranks"
                        );
                    }
                    assert_eq!(numbers(&mine), before, "the operand, {algorithm}, {size} ranks");
                    Ok::<_, Error>(())
                })
                .unwrap();
            }
        }
    });
}

#[test]
fn messages_carry_their_shape_and_arrive_in_order() {
    watched(30, || {
        launch(2, &options(Algorithm::Ring), |rank| {
            let group = rank.communicator();
            for length in 0..20 {
                let tensor = operand(Data::Dyadic, DType::BF16, 5, 0, &[2, length]);
                if rank.rank() == 0 {
                    group.send(&tensor, 1)?;
                } else {
                    let found = group.recv(0)?;
                    assert_eq!(
                        (found.dims(), found.dtype(), numbers(&found)),
                        (tensor.dims(), DType::BF16, numbers(&tensor))
                    );
                }
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}

#[test]
fn a_rank_is_one_thread_with_its_name_its_ledger_and_a_pool_of_one() {
    watched(30, || {
        let found = launch(3, &options(Algorithm::Ring), |rank| {
            let name = std::thread::current().name().map(str::to_owned);
            assert_eq!(*rank.ledger(), ledger::Ledger::of_this_thread());
            Ok::<_, Error>((name, rank.ledger().name(), rayon::current_num_threads()))
        })
        .unwrap();
        for (rank, found) in found.into_iter().enumerate() {
            assert_eq!(found, (Some(format!("rank {rank}")), format!("rank {rank}"), 1));
        }
    });
}

#[test]
fn an_operand_may_be_overwritten_as_soon_as_its_call_returns() {
    watched(60, || {
        for algorithm in Algorithm::ALL {
            launch(3, &options(algorithm), |rank| {
                let (group, length) = (rank.communicator(), 40_000);
                let of = |rank: usize, round: u64| operand(Data::Dyadic, DType::F32, round, rank, &[length]);
                for round in 0..10 {
                    let mine = of(rank.rank(), round);
                    let spoil = || mine.slice_set(&Tensor::full(-1e6f32, length, mine.device())?, 0, 0);
                    let gathered = match round % 4 {
                        0 => group.all_gather(&mine, 0)?,
                        1 => group.reduce_scatter(&mine, ReduceOp::Sum, 0)?,
                        2 => group.broadcast(&mine, 1)?,
                        _ => group.all_reduce(&mine, ReduceOp::Sum)?,
                    };
                    spoil()?;
                    assert!(numbers(&gathered).iter().all(|&value| value >= 0.0), "{algorithm}, round {round}");
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    });
}
