//! An operation that runs while its rank computes. Rank r gives r·100 + i in bucket i.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Options, ReduceOp, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 4;
    const BUCKETS: i64 = 3;
    launch(RANKS, &Options::default(), |rank| {
        let mut under_way = Vec::new();
        for bucket in 0..BUCKETS {
            // As a backward would: a gradient is ready, its sum begins, the next one is computed meanwhile.
            let gradient = Tensor::new(&[rank.rank() as i64 * 100 + bucket], &Device::Cpu)?;
            let pending = rank.communicator().start_all_reduce_in_place(&gradient, ReduceOp::Sum)?;
            under_way.push((gradient, pending));
        }
        for (bucket, (gradient, pending)) in under_way.into_iter().enumerate() {
            pending.wait()?;
            assert_eq!(gradient.to_vec1::<i64>()?, [600 + 4 * bucket as i64]);
        }
        if rank.rank() == 0 {
            println!("{BUCKETS} all-reduces were under way at once, and ran in the order of their issue");
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
