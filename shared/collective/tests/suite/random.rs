//! Ten thousand random operations over random groups: no hang, and every value right.

use crate::inputs::{Data, Random, fresh_seed, numbers, operand, watched};
use crate::values::options;
use candle_core::DType;
use collective::{Algorithm, Communicator, Error, Pending, ReduceOp, chunk, launch};
use std::sync::Arc;

const RANKS: usize = 8;

/// Random partitions of the world: every rank draws the same.
fn groups(world: &Arc<dyn Communicator>, random: &mut Random) -> Result<Vec<Arc<dyn Communicator>>, Error> {
    let mut groups = vec![world.clone()];
    for _ in 0..6 {
        let colors: Vec<_> = (0..RANKS).map(|_| random.below(3)).collect();
        let keys: Vec<_> = (0..RANKS).map(|_| random.below(100)).collect();
        groups.push(world.split(colors[world.rank()], keys[world.rank()])?);
    }
    Ok(groups)
}

/// One operation of `kind` on `length` elements in `group`, checked. Some are left under way.
fn one(
    group: &dyn Communicator,
    kind: usize,
    length: usize,
    seed: u64,
    open: &mut Vec<Pending<()>>,
) -> Result<(), Error> {
    let (rank, size) = (group.rank(), group.size());
    let of = |rank: usize| operand(Data::Dyadic, DType::F32, seed, group.members()[rank], &[length]);
    let total = || -> Vec<f64> {
        let all: Vec<_> = (0..size).map(|rank| numbers(&of(rank))).collect();
        (0..length).map(|index| all.iter().map(|values| values[index]).sum()).collect()
    };
    match kind {
        0 => assert_eq!(numbers(&group.all_reduce(&of(rank), ReduceOp::Sum)?), total()),
        1 => {
            let all: Vec<_> = (0..size).flat_map(|rank| numbers(&of(rank))).collect();
            assert_eq!(numbers(&group.all_gather(&of(rank), 0)?), all);
        }
        2 => {
            let part = chunk(length, size, rank);
            assert_eq!(numbers(&group.reduce_scatter(&of(rank), ReduceOp::Sum, 0)?), total()[part]);
        }
        3 => {
            let root = seed as usize % size;
            assert_eq!(numbers(&group.broadcast(&of(rank), root)?), numbers(&of(root)));
        }
        4 => {
            let found = group.all_to_all(&vec![of(rank); size])?;
            assert!((0..size).all(|from| numbers(&found[from]) == numbers(&of(from))));
        }
        5 => {
            let from = (rank + size - 1) % size;
            assert_eq!(numbers(&group.send_recv(&of(rank), (rank + 1) % size, from)?), numbers(&of(from)));
        }
        6 => group.barrier()?,
        _ => open.push(group.start_all_reduce_in_place(&of(rank), ReduceOp::Sum)?),
    }
    Ok(())
}

#[test]
fn ten_thousand_random_operations_over_random_groups_do_not_hang() {
    let seed = fresh_seed();
    println!("seed {seed}");
    for algorithm in Algorithm::ALL {
        watched(120, move || {
            launch(RANKS, &options(algorithm), |rank| {
                let mut random = Random(seed);
                let groups = groups(rank.communicator(), &mut random)?;
                let mut open = Vec::new();
                for number in 0..10_000 / Algorithm::ALL.len() {
                    // Every rank draws the same round: which partition, what, how long. Its group in that partition
                    // does it.
                    let (group, kind, length) = (random.below(groups.len()), random.below(8), random.below(20));
                    one(groups[group].as_ref(), kind, length, seed + number as u64, &mut open)?;
                    if open.len() > 3 {
                        open.drain(..).try_for_each(Pending::wait)?;
                    }
                }
                open.into_iter().try_for_each(Pending::wait)
            })
            .unwrap_or_else(|error| panic!("{algorithm}, seed {seed}: {error}"));
        });
    }
}

#[test]
fn a_hundred_groups_can_be_made_and_dropped() {
    watched(30, || {
        launch(4, &options(Algorithm::Ring), |rank| {
            for round in 0..100 {
                let group = rank.communicator().split(rank.rank() % (1 + round % 4), 0)?;
                group.barrier()?;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}
