//! `--random SEED`: a model's shape with random weights, asked for by name and never fallen back to.

use crate::Result;
use crate::loaded::Described;
use clap::Args;
use decoder::Decoder;
use decoder::split::Split;
use decoder::weights::random::Random;

/// Which weights: the model's own, or random ones of its shape.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct RandomFlags {
    /// Take the model's shape with random weights from this seed: enough for sizes and speed, and nothing is read
    #[arg(long, value_name = "SEED")]
    pub random: Option<u64>,
}

impl RandomFlags {
    /// Loads the part of `described` that `split` places here.
    ///
    /// # Errors
    /// A weight is missing or has another shape, or the device has no room.
    pub fn load(&self, described: &Described, split: &Split) -> Result<Decoder> {
        match self.random {
            None => described.load(split),
            Some(seed) => {
                let (weights, device) = (Random::new(seed), &described.device);
                Ok(Decoder::load(&described.config, &weights, described.dtype, device, split)?)
            }
        }
    }
}
