//! Rank j gets part j of every rank: a transposition over ranks. Rank r gives rank j the value r·100 + j, j + 1 times.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Options, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 3;
    launch(RANKS, &Options::default(), |rank| {
        let own = rank.rank();
        let part = |to: usize| Tensor::full((own * 100 + to) as i64, to + 1, &Device::Cpu);
        let parts = (0..RANKS).map(part).collect::<candle_core::Result<Vec<_>>>()?;

        let received = rank.communicator().all_to_all(&parts)?;

        for (from, tensor) in received.iter().enumerate() {
            let expected = vec![(from * 100 + own) as i64; own + 1];
            assert_eq!(tensor.to_vec1::<i64>()?, expected, "from rank {from}: parts may have any length");
        }
        if own == RANKS - 1 {
            println!("all-to-all on {RANKS} ranks: the last has {received:?}");
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
