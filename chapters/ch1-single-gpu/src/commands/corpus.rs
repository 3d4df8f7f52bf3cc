//! `cargo ch1 corpus`: prints the stories that the bundled model learnt from.

use crate::stories;
use clap::Args;
use lab::program::Output;
use std::io::Write;

/// What `cargo ch1 corpus` takes.
#[derive(Args, Debug)]
pub(super) struct Corpus {
    /// At least this much text, in whole stories: 500, 64KiB, 18MB
    #[arg(long, value_name = "SIZE", default_value = "10KB")]
    bytes: ledger::Bytes,
    /// Seed of the stories
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Stories that no corpus of this seed has: to measure a loss with
    #[arg(long)]
    held_out: bool,
}

impl Corpus {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let first = if self.held_out { stories::FIRST_HELD_OUT } else { 0 };
        let mut written = 0;
        // Story by story, so that any size can be had, and `| head` ends it.
        for index in first.. {
            if written >= self.bytes.0 {
                break;
            }
            let text = stories::entry(self.seed, index);
            out.write_all(text.as_bytes())?;
            written += text.len() as u64;
        }
        Ok(())
    }
}
