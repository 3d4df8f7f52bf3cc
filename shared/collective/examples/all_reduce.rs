//! Every rank gets the sum of all. Rank r gives r·100 and r·100 + 1.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Options, ReduceOp, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 4;
    launch(RANKS, &Options::default(), |rank| {
        let own = rank.rank() as i64 * 100;
        let mine = Tensor::new(&[own, own + 1], &Device::Cpu)?;
        let group = rank.communicator();

        let sum = group.all_reduce(&mine, ReduceOp::Sum)?;
        assert_eq!(sum.to_vec1::<i64>()?, [600, 604], "0 + 100 + 200 + 300, and 4 ones more");

        let largest = group.all_reduce(&mine, ReduceOp::Max)?;
        assert_eq!(largest.to_vec1::<i64>()?, [300, 301]);

        group.all_reduce_in_place(&mine, ReduceOp::Min)?;
        assert_eq!(mine.to_vec1::<i64>()?, [0, 1], "the operand itself");

        if rank.rank() == 0 {
            println!("all-reduce on {RANKS} ranks: the sum is {sum}");
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
