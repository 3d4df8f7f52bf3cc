//! Ranks on a grid of 2 × 3: sums along either axis. Rank r gives r·100.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Mesh, Options, ReduceOp, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    let mesh = Mesh::new(&[("dp", 2), ("tp", 3)])?;
    launch(mesh.size(), &Options::default(), |rank| {
        let world = rank.communicator().as_ref();
        let (dp, tp) = (mesh.communicator(world, &["dp"])?, mesh.communicator(world, &["tp"])?);
        let mine = Tensor::new(&[rank.rank() as i64 * 100], &Device::Cpu)?;

        // Ranks 0, 1, 2 are the first row, 3, 4, 5 the second.
        let row = tp.all_reduce(&mine, ReduceOp::Sum)?.to_vec1::<i64>()?;
        assert_eq!(row, [if rank.rank() < 3 { 300 } else { 1200 }]);

        let column = dp.all_reduce(&mine, ReduceOp::Sum)?.to_vec1::<i64>()?;
        assert_eq!(column, [300 + 200 * (rank.rank() as i64 % 3)]);

        if rank.rank() == 0 {
            println!("mesh {mesh}: rank 0 is in dp group {:?} and tp group {:?}", dp.members(), tp.members());
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
