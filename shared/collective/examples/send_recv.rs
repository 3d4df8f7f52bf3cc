//! Messages between two ranks. A send waits for its receive, so neighbours on a ring exchange with `send_recv`.
#![allow(missing_docs)]

use candle_core::{Device, Tensor};
use collective::{Error, Options, launch};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 4;
    launch(RANKS, &Options::default(), |rank| {
        let (own, group) = (rank.rank(), rank.communicator());
        let mine = Tensor::new(&[own as i64 * 100], &Device::Cpu)?;

        // Down a chain: rank 0 sends first, everyone else receives first.
        let arrived = if own == 0 { mine.clone() } else { (group.recv(own - 1)? + 1.0)? };
        if own + 1 < RANKS {
            group.send(&arrived, own + 1)?;
        }
        assert_eq!(arrived.to_vec1::<i64>()?, [own as i64], "0, and 1 per rank passed");

        // Around a ring: all at once. With `send` and then `recv`, everyone would wait for the next.
        let (next, previous) = ((own + 1) % RANKS, (own + RANKS - 1) % RANKS);
        let received = group.send_recv(&mine, next, previous)?;
        assert_eq!(received.to_vec1::<i64>()?, [previous as i64 * 100]);

        if own == 0 {
            println!("around the ring of {RANKS}: rank 0 has {received}");
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
