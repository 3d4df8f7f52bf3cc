//! Nobody goes on before everybody is here.
#![allow(missing_docs)]

use collective::{Error, Options, launch};
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    const RANKS: usize = 4;
    let arrived = AtomicUsize::new(0);
    launch(RANKS, &Options::default(), |rank| {
        for round in 1..=10 {
            arrived.fetch_add(1, Ordering::SeqCst);
            rank.communicator().barrier()?;
            // Nobody can be a round ahead before the second barrier.
            assert_eq!(arrived.load(Ordering::SeqCst), RANKS * round, "rank {}", rank.rank());
            rank.communicator().barrier()?;
        }
        if rank.rank() == 0 {
            println!("{RANKS} ranks met twenty times");
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
