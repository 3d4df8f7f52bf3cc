//! Flags that mean the same in every chapter's program, as groups for `#[command(flatten)]`.
//!
//! What was typed is kept apart from what it means: the fields are the words of the command line, the methods give the checked
//! value or an error that says what would be legal.

use crate::{Error, Result};
use std::ops::RangeInclusive;

mod batch;
mod cluster;
mod device;
mod model;
mod output;
mod parallel;
mod random;
mod sampling;
mod with;

pub use batch::BatchFlags;
pub use cluster::{ClockChoice, ClusterFlags, FailureFlags, InjectedFailure};
pub use device::{DeviceChoice, DeviceFlags, DtypeChoice};
pub use model::{BUNDLED, ModelFlags, assets};
pub use output::{MemoryFlags, OutputFlags, TraceFlags};
pub use parallel::{DataParallelFlags, TensorParallelFlags};
pub use random::RandomFlags;
pub use sampling::SamplingFlags;
pub use with::WithFlags;

/// Refuses a number that is not in `legal`, so that nothing computed from it overflows or asks for all memory.
///
/// # Errors
/// It is not; names the flag and both ends.
pub fn within(flag: &'static str, found: usize, legal: RangeInclusive<usize>) -> Result<()> {
    if legal.contains(&found) {
        return Ok(());
    }
    let expected = format!("from {} to {}", legal.start(), legal.end());
    Err(Error::Flag { flag, found: found.to_string(), expected })
}
