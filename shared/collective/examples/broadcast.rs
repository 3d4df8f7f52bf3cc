//! Every rank gets the tensor of the root. The others give one of the same shape, whose values do not matter.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Options, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 4;
    launch(RANKS, &Options::default(), |rank| {
        for root in 0..RANKS {
            let own = rank.rank() as i64 * 100;
            let mine = Tensor::new(&[own, own + 1, own + 2], &Device::Cpu)?;

            let received = rank.communicator().broadcast(&mine, root)?;

            let sent = root as i64 * 100;
            assert_eq!(received.to_vec1::<i64>()?, [sent, sent + 1, sent + 2]);
            assert_eq!(mine.to_vec1::<i64>()?, [own, own + 1, own + 2], "the operand stays as it was");
            if rank.rank() == 0 {
                println!("broadcast from rank {root}: {received}");
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
