//! All-reduce in place, as a gradient synchronisation uses it: the median time of 4 KiB, the payload per second of 64
//! MiB.
//!
//! `RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1 cargo bench --profile dev -p collective -p lab --bench all_reduce`, with a number of ranks
//! behind `--` to measure that one only. `shared/collective/benches/peers/run.sh` puts Open MPI and gloo beside it.
//!
//! Two ranks on a quiet machine with two cores: 64 MiB at 6.9 to 7.5 GB/s direct and 1.7 to 2.2 around the ring, where Open MPI has 1.7
//! to 2.1 and gloo (PyTorch 2.15) 1.4 to 1.6; 4 KiB in 3.4 to 4.4 µs direct, 2.4 ring, 1.2 to 1.3 Open MPI, 457 to 464 gloo.
#![allow(missing_docs)]

use candle_core::{DType, Device, Tensor};
use collective::{Algorithm, Error, Options, ReduceOp, launch};
use std::time::Instant;

const SMALL: usize = 4 << 10;
const LARGE: usize = 64 << 20;

fn main() -> Result<(), Error> {
    let only = std::env::args().find_map(|argument| argument.parse::<usize>().ok());
    for ranks in [2, 4, 8].into_iter().filter(|&ranks| only.is_none_or(|only| only == ranks)) {
        for algorithm in Algorithm::ALL {
            let options = Options { algorithm, ..Options::default() };
            let small = median(ranks, &options, SMALL, if ranks == 2 { 10_000 } else { 1_000 })?;
            let large = median(ranks, &options, LARGE, 11)?;
            let rate = LARGE as f64 / large / 1e9;
            println!(
                "{ranks} ranks, {algorithm:<12}: 4 KiB median {:7.1} µs; 64 MiB {:6.1} ms, {rate:.2} GB/s",
                small * 1e6,
                large * 1e3
            );
        }
    }
    Ok(())
}

/// The median, over `repetitions`, of the seconds that rank 0 spends in one all-reduce of `bytes` bytes of f32.
fn median(ranks: usize, options: &Options, bytes: usize, repetitions: usize) -> Result<f64, Error> {
    let times = launch(ranks, options, |rank| {
        // Zeros stay zeros, however often they are added up; every page is written before the clock starts.
        let tensor = Tensor::zeros(bytes / 4, DType::F32, &Device::Cpu)?;
        let group = rank.communicator();
        group.all_reduce_in_place(&tensor, ReduceOp::Sum)?;
        let mut times = Vec::with_capacity(repetitions);
        for _ in 0..repetitions {
            let start = Instant::now();
            group.all_reduce_in_place(&tensor, ReduceOp::Sum)?;
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok::<_, Error>(times[repetitions / 2])
    })?;
    Ok(times[0])
}
