//! Every rank gets the tensors of all, joined in order of rank. Rank r gives a column with r·100 and r·100 + 1.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Options, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 3;
    launch(RANKS, &Options::default(), |rank| {
        let own = rank.rank() as i64 * 100;
        let column = Tensor::new(&[[own], [own + 1]], &Device::Cpu)?;
        let group = rank.communicator();

        let wide = group.all_gather(&column, 1)?;
        assert_eq!(wide.to_vec2::<i64>()?, [[0, 100, 200], [1, 101, 201]], "along the last dimension");

        let long = group.all_gather(&column, 0)?;
        assert_eq!(long.dims(), [6, 1], "along the first");

        // Rank r gives r rows: lengths may differ along the dimension that is joined.
        let rows = Tensor::full(own, (rank.rank(), 1), &Device::Cpu)?;
        let uneven = group.all_gather(&rows, 0)?.flatten_all()?;
        assert_eq!(uneven.to_vec1::<i64>()?, [100, 200, 200]);

        if rank.rank() == 0 {
            println!("all-gather on {RANKS} ranks: {wide}");
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
