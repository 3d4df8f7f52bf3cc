//! Every operation × dtype × dimension × length × group size × algorithm, against a plain computation.

use crate::inputs::{Data, fresh_seed, numbers, operand, watched};
use candle_core::{DType, Tensor};
use collective::{Algorithm, Communicator, Error, Link, Options, ReduceOp, Topology, chunk, launch};

const DTYPES: [DType; 6] = [DType::F64, DType::F32, DType::F16, DType::BF16, DType::U32, DType::I64];
const OPS: [ReduceOp; 3] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min];

/// Nodes of three ranks: groups of one to eight then have whole, partial and single-rank nodes.
pub(crate) fn options(algorithm: Algorithm) -> Options {
    let topology = Topology { ranks_per_node: 3, within: Link::NVLINK, between: Link::INFINIBAND };
    Options { algorithm, topology, ..Options::default() }
}

/// The reduction of the operands of `size` ranks, one by one in f64.
fn reduced(op: ReduceOp, operands: &[Tensor]) -> Vec<f64> {
    let all: Vec<_> = operands.iter().map(numbers).collect();
    let fold = |index: usize| {
        let column = all.iter().map(|values| values[index]);
        match op {
            ReduceOp::Sum => column.sum(),
            ReduceOp::Max => column.fold(f64::NEG_INFINITY, f64::max),
            ReduceOp::Min => column.fold(f64::INFINITY, f64::min),
        }
    };
    (0..all[0].len()).map(fold).collect()
}

/// How far a result of real data may be from the f64 sum, relative to `size` summands of at most 1. Exact data: not at
/// all.
fn tolerance(data: Data, dtype: DType, op: ReduceOp, size: usize) -> f64 {
    let unit = match dtype {
        DType::F64 => 2f64.powi(-52),
        DType::F32 => 2f64.powi(-23),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => 0.0,
    };
    // One rounding per hop, each of a partial sum below `size`.
    if data == Data::Dyadic || op != ReduceOp::Sum { 0.0 } else { unit * (size * size) as f64 }
}

fn assert_close(what: &str, found: &Tensor, expected: &[f64], tolerance: f64) {
    let found = numbers(found);
    assert_eq!(found.len(), expected.len(), "{what}: number of elements");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance, "{what}: element {index} is {found}, not {expected}");
    }
}

/// All operations on one shape; every rank checks its own results. Returns what must be the same bits on every rank.
fn all_operations(
    group: &dyn Communicator,
    data: Data,
    dtype: DType,
    shape: &[usize],
    seed: u64,
) -> Result<Vec<Vec<f64>>, Error> {
    let (rank, size) = (group.rank(), group.size());
    let operands: Vec<_> = (0..size).map(|rank| operand(data, dtype, seed, rank, shape)).collect();
    let mine = &operands[rank];
    let case = format!("rank {rank} of {size}, {dtype:?} {shape:?} {data:?}, seed {seed}");
    let mut same = Vec::new();
    for op in OPS {
        let close = tolerance(data, dtype, op, size);
        let expected = reduced(op, &operands);
        let sum = group.all_reduce(mine, op)?;
        assert_eq!((sum.dims(), sum.dtype()), (shape, dtype), "{case}");
        assert_close(&format!("all_reduce {op:?}, {case}"), &sum, &expected, close);
        assert_eq!(
            numbers(mine),
            numbers(&operand(data, dtype, seed, rank, shape)),
            "the operand is untouched, {case}"
        );
        let place = operand(data, dtype, seed, rank, shape);
        group.all_reduce_in_place(&place, op)?;
        assert_eq!(numbers(&place), numbers(&sum), "in place is the same, {case}");
        same.push(numbers(&sum));
        for dim in 0..shape.len() {
            let part = chunk(shape[dim], size, rank);
            let found = group.reduce_scatter(mine, op, dim)?;
            let whole = Tensor::from_vec(expected.clone(), shape, mine.device())?;
            let expected = numbers(&whole.narrow(dim, part.start, part.len())?);
            assert_close(&format!("reduce_scatter {op:?} dim {dim}, {case}"), &found, &expected, close);
        }
    }
    for dim in 0..shape.len() {
        // Rank r holds its chunk of the length, so parts differ; and the operand is a view that is not contiguous.
        let held = |rank: usize| {
            let part = chunk(shape[dim], size, rank);
            operands[rank].narrow(dim, part.start, part.len()).unwrap()
        };
        let found = group.all_gather(&held(rank), dim)?;
        assert_eq!(found.dims(), shape, "all_gather dim {dim}, {case}");
        for other in 0..size {
            let part = chunk(shape[dim], size, other);
            let found = numbers(&found.narrow(dim, part.start, part.len())?);
            assert_eq!(found, numbers(&held(other)), "all_gather dim {dim}, part {other}, {case}");
        }
        same.push(numbers(&found));
    }
    for root in [0, size - 1] {
        let found = group.broadcast(mine, root)?;
        assert_eq!(numbers(&found), numbers(&operands[root]), "broadcast from {root}, {case}");
    }
    let part_of = |from: usize, to: usize| {
        let part = chunk(operands[from].elem_count(), size, to);
        operands[from].flatten_all().unwrap().narrow(0, part.start, part.len()).unwrap()
    };
    let parts: Vec<_> = (0..size).map(|to| part_of(rank, to)).collect();
    for (from, found) in group.all_to_all(&parts)?.iter().enumerate() {
        assert_eq!(numbers(found), numbers(&part_of(from, rank)), "all_to_all from {from}, {case}");
    }
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let found = group.send_recv(mine, to, from)?;
    assert_eq!(numbers(&found), numbers(&operands[from]), "send_recv, {case}");
    assert_eq!(found.dims(), shape, "the shape travels, {case}");
    group.barrier()?;
    Ok(same)
}

/// Lengths 0, 1, smaller than the group, not divisible, large; dimensions in every place.
fn shapes(size: usize) -> Vec<Vec<usize>> {
    vec![
        vec![],
        vec![0],
        vec![1],
        vec![size - 1],
        vec![size + 1],
        vec![3 * size + 2],
        vec![2, 5, 3],
        vec![2, 0, 3],
        vec![2, 3, size, 2],
    ]
}

fn check_algorithm(algorithm: Algorithm) {
    let seed = fresh_seed();
    for size in 1..=8 {
        let run = || {
            launch(size, &options(algorithm), |rank| {
                let mut same = Vec::new();
                for dtype in DTYPES {
                    for shape in shapes(size) {
                        same.extend(all_operations(rank.communicator().as_ref(), Data::Dyadic, dtype, &shape, seed)?);
                    }
                    same.extend(all_operations(rank.communicator().as_ref(), Data::Real, dtype, &[3, 37], seed)?);
                }
                Ok::<_, Error>(same)
            })
            .unwrap()
        };
        let results = run();
        for (rank, result) in results.iter().enumerate() {
            assert_eq!(
                *result, results[0],
                "rank {rank} of {size} has other bits than rank 0, {algorithm}, seed {seed}"
            );
        }
        if size == 5 {
            assert_eq!(results, run(), "a second run gives other bits, {algorithm}, seed {seed}");
        }
    }
}

#[test]
fn direct_gives_what_a_plain_computation_gives() {
    watched(120, || check_algorithm(Algorithm::Direct));
}

#[test]
fn ring_gives_what_a_plain_computation_gives() {
    watched(120, || check_algorithm(Algorithm::Ring));
}

#[test]
fn tree_gives_what_a_plain_computation_gives() {
    watched(120, || check_algorithm(Algorithm::Tree));
}

#[test]
fn hierarchical_gives_what_a_plain_computation_gives() {
    watched(120, || check_algorithm(Algorithm::Hierarchical));
}

#[test]
fn large_operands_are_reduced_like_small_ones() {
    watched(60, || {
        let seed = fresh_seed();
        for algorithm in Algorithm::ALL {
            for (size, dtype, length) in
                [(2, DType::F32, 1_000_003), (3, DType::BF16, 700_001), (5, DType::F64, 100_000)]
            {
                launch(size, &options(algorithm), |rank| {
                    let operands: Vec<_> =
                        (0..size).map(|rank| operand(Data::Dyadic, dtype, seed, rank, &[length])).collect();
                    let sum = rank.communicator().all_reduce(&operands[rank.rank()], ReduceOp::Sum)?;
                    let case = format!("{algorithm} {size} ranks {dtype:?}, seed {seed}");
                    assert_close(&case, &sum, &reduced(ReduceOp::Sum, &operands), 0.0);
                    Ok::<_, Error>(())
                })
                .unwrap();
            }
        }
    });
}

#[test]
fn many_blocks_in_place_do_not_run_into_each_other() {
    watched(60, || {
        // Ones stay powers of the group's size, however often they are added up.
        for size in [2, 3] {
            launch(size, &options(Algorithm::Direct), |rank| {
                let tensor = Tensor::ones(8_000_001, DType::F32, &candle_core::Device::Cpu)?;
                for round in 1..=6 {
                    rank.communicator().all_reduce_in_place(&tensor, ReduceOp::Sum)?;
                    let (least, most) = (tensor.min(0)?.to_vec0::<f32>()?, tensor.max(0)?.to_vec0::<f32>()?);
                    let expected = (size as f32).powi(round);
                    assert_eq!((least, most), (expected, expected), "round {round}, {size} ranks");
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    });
}

#[test]
fn low_precision_is_added_in_f32() {
    watched(30, || {
        // 256 + 1 = 256 in bf16: with sums in bf16, the ones would be lost one by one.
        for algorithm in [Algorithm::Direct, Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical] {
            let sums = launch(2, &options(algorithm), |rank| {
                let own = Tensor::new(&[if rank.rank() == 0 { 256f32 } else { 3.0 }], &candle_core::Device::Cpu)?;
                rank.communicator().all_reduce(&own.to_dtype(DType::BF16)?, ReduceOp::Sum).map(|sum| numbers(&sum))
            });
            assert_eq!(sums.unwrap(), [[260.0], [260.0]], "259 rounded to bf16, {algorithm}");
        }
        let sums = launch(5, &options(Algorithm::Direct), |rank| {
            let own = Tensor::new(&[if rank.rank() == 0 { 256f32 } else { 1.0 }], &candle_core::Device::Cpu)?;
            rank.communicator().all_reduce(&own.to_dtype(DType::BF16)?, ReduceOp::Sum).map(|sum| numbers(&sum))
        });
        assert_eq!(sums.unwrap(), vec![vec![260.0]; 5], "direct rounds once");
    });
}

#[test]
fn nan_survives_every_reduction() {
    watched(30, || {
        for algorithm in Algorithm::ALL {
            for op in OPS {
                for poisoned in 0..3 {
                    let found = launch(3, &options(algorithm), |rank| {
                        let own = if rank.rank() == poisoned { f32::NAN } else { rank.rank() as f32 };
                        let own = Tensor::new(&[own], &candle_core::Device::Cpu)?;
                        rank.communicator().all_reduce(&own, op).map(|result| numbers(&result)[0])
                    });
                    assert!(found.unwrap().iter().all(|value| value.is_nan()), "{algorithm} {op:?}, NaN on {poisoned}");
                }
            }
        }
    });
}
