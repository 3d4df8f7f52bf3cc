//! Bytes predicted by [`collective::volume`] are the bytes counted: equal, for every rank.

use crate::inputs::{Data, fresh_seed, operand, watched};
use crate::values::options;
use candle_core::{DType, Tensor};
use collective::volume::{self, Place};
use collective::{Algorithm, Communicator, Error, Operation, ReduceOp, Sent, chunks, launch};

/// Does every operation once on `elements` elements, and returns what must have been sent.
fn once(
    group: &dyn Communicator,
    algorithm: Algorithm,
    place: &Place,
    dtype: DType,
    elements: usize,
    seed: u64,
) -> Result<Vec<(Operation, Sent)>, Error> {
    let (rank, size, width) = (group.rank(), group.size(), dtype.size_in_bytes());
    let mine = operand(Data::Dyadic, dtype, seed, rank, &[elements, 3]);
    let parts: Vec<usize> = chunks(elements, size).iter().map(|part| part.len() * 3).collect();
    let own = chunks(elements, size)[rank].clone();
    group.all_reduce(&mine, ReduceOp::Sum)?;
    group.reduce_scatter(&mine, ReduceOp::Sum, 0)?;
    group.all_gather(&mine.narrow(0, own.start, own.len())?, 0)?;
    group.broadcast(&mine, size - 1)?;
    let cut: Vec<Tensor> = chunks(elements, size)
        .into_iter()
        .map(|part| mine.narrow(0, part.start, part.len()))
        .collect::<Result<_, _>>()?;
    group.all_to_all(&cut)?;
    let next = (rank + 1) % size;
    group.send_recv(&mine, next, (rank + size - 1) % size)?;
    group.barrier()?;
    Ok(vec![
        (Operation::AllReduce, volume::all_reduce(algorithm, place, elements * 3, width)),
        (Operation::ReduceScatter, volume::reduce_scatter(algorithm, place, &parts, width)),
        (Operation::AllGather, volume::all_gather(algorithm, place, &parts, width)),
        (Operation::Broadcast, volume::broadcast(algorithm, place, size - 1, elements * 3, width)),
        (Operation::AllToAll, volume::all_to_all(algorithm, place, &parts, width)),
        (Operation::SendReceive, volume::send(place, next, elements * 3, width)),
        (Operation::Barrier, Sent::default()),
    ])
}

#[test]
fn predicted_bytes_are_the_counted_bytes_on_every_rank() {
    watched(120, || {
        let seed = fresh_seed();
        for algorithm in Algorithm::ALL {
            for size in 1..=8 {
                for (dtype, elements) in [(DType::F32, 0), (DType::F64, 1), (DType::BF16, size + 1), (DType::F32, 1000)]
                {
                    launch(size, &options(algorithm), |rank| {
                        let group = rank.communicator().as_ref();
                        let place = Place::of(rank.rank(), group.members(), &options(algorithm).topology);
                        let predicted = once(group, algorithm, &place, dtype, elements, seed)?;
                        for (operation, sent) in predicted {
                            let (calls, payload, counted) = group.traffic().of(operation);
                            let case = format!(
                                "{operation} on rank {} of {size}, {algorithm}, {elements} × 3 {dtype:?}",
                                rank.rank()
                            );
                            assert_eq!((calls, counted), (1, sent), "{case}");
                            let whole = (elements * 3 * dtype.size_in_bytes()) as u64;
                            let own =
                                chunks(elements, size)[rank.rank()].len() as u64 * 3 * dtype.size_in_bytes() as u64;
                            let expected = match operation {
                                Operation::AllGather => own,
                                Operation::Barrier => 0,
                                _ => whole,
                            };
                            assert_eq!(payload, expected, "payload of {case}");
                        }
                        assert_eq!(rank.traffic().sent(), group.traffic().sent());
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                }
            }
        }
    });
}

#[test]
fn each_group_has_its_own_entry_and_one_rank_sends_nothing() {
    watched(30, || {
        launch(4, &options(Algorithm::Ring), |rank| {
            let world = rank.communicator();
            let pair = world.split(rank.rank() / 2, 0)?;
            let alone = world.split(rank.rank(), 0)?;
            let own = operand(Data::Dyadic, DType::F32, 1, rank.rank(), &[8]);
            for group in [world, &pair, &alone, &pair] {
                group.all_reduce(&own, ReduceOp::Sum)?;
            }
            assert_eq!(alone.traffic().sent(), Sent::default());
            // Ranks 2 and 3 lie on two nodes of three.
            let (within, between) = if rank.rank() < 2 { (64, 0) } else { (0, 64) };
            assert_eq!(pair.traffic().of(Operation::AllReduce), (2, 64, Sent { within, between }));
            let groups: Vec<_> = rank
                .traffic()
                .entries()
                .iter()
                .filter(|entry| entry.operation == Operation::AllReduce)
                .map(|entry| (entry.group.to_vec(), entry.calls))
                .collect();
            let first = rank.rank() / 2 * 2;
            assert_eq!(groups, [(vec![0, 1, 2, 3], 1), (vec![first, first + 1], 2), (vec![rank.rank()], 1)]);
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}
