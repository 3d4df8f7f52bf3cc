//! What a mistake looks like: one error, which says who asked for what, or who waits for whom.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Failure, Options, ReduceOp, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    let shapes = launch(3, &Options::default(), |rank| {
        // Rank 1 kept a row too many.
        let rows = if rank.rank() == 1 { 3 } else { 2 };
        let mine = Tensor::full(rank.rank() as i64 * 100, rows, &Device::Cpu)?;
        rank.communicator().all_reduce(&mine, ReduceOp::Sum)
    });
    let Err(Error::Failed(failure)) = shapes else { unreachable!("the shapes differ") };
    assert!(failure.to_string().contains("rank 1 asked for all_reduce(i64 [3] Sum)"), "{failure}");
    println!("error: {failure}");

    let circle = launch(2, &Options::default(), |rank| {
        // Both send first: each waits for the other to receive.
        let mine = Tensor::new(&[rank.rank() as i64 * 100], &Device::Cpu)?;
        rank.communicator().send(&mine, 1 - rank.rank())?;
        rank.communicator().recv(1 - rank.rank())
    });
    let Err(Error::Failed(failure)) = circle else { unreachable!("each waits for the other") };
    assert!(matches!(&*failure, Failure::Deadlock { waits, finished: None } if waits.len() == 2));
    println!("error: {failure}");
    Ok(())
}
