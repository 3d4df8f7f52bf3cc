//! Every rank gets its part of the sum of all. Rank r gives r·100 + 0, r·100 + 1, …
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Options, ReduceOp, chunk, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 3;
    const LENGTH: usize = 7;
    launch(RANKS, &Options::default(), |rank| {
        let own: Vec<_> = (0..LENGTH as i64).map(|index| rank.rank() as i64 * 100 + index).collect();
        let mine = Tensor::new(own, &Device::Cpu)?;

        let part = rank.communicator().reduce_scatter(&mine, ReduceOp::Sum, 0)?;

        // 7 elements on 3 ranks: 3, 2 and 2. Element i of the sum is 0 + 100 + 200 + 3·i.
        let range = chunk(LENGTH, RANKS, rank.rank());
        let expected: Vec<_> = range.map(|index| 300 + 3 * index as i64).collect();
        assert_eq!(part.to_vec1::<i64>()?, expected);

        if rank.rank() == 0 {
            println!("reduce-scatter on {RANKS} ranks: rank 0 has {part}");
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
