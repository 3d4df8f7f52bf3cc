//! How many ranks, axis by axis: `--dp` and, with the chapters that need them, the others.

use crate::{Error, Result};
use clap::Args;

/// Replicas unless `--dp` says otherwise.
const DEFAULT: usize = 2;

/// Data parallelism.
#[derive(Args, Clone, Copy, Debug)]
pub struct DataParallelFlags {
    /// Data-parallel ranks: replicas of the model, each with its rows of the batch [default: 2, or 1 for a single sequence]
    #[arg(long, visible_alias = "data-parallel-size", value_name = "RANKS")]
    pub dp: Option<usize>,
}

impl DataParallelFlags {
    /// The number of replicas, for a batch of `rows` sequences. `batch` says where these came from: `--batch`.
    ///
    /// # Errors
    /// 0, or more than there are sequences: a rank without work would still hold a whole model.
    pub fn dp(&self, rows: usize, batch: &str) -> Result<usize> {
        let dp = self.dp.unwrap_or(DEFAULT.min(rows));
        if (1..=rows).contains(&dp) {
            return Ok(dp);
        }
        let expected = match dp {
            0 => "at least 1 rank".to_owned(),
            _ => format!(
                "{batch} has {rows} {}, and each rank computes at least one: 1 to {rows} ranks, or a larger batch",
                if rows == 1 { "sequence" } else { "sequences" }
            ),
        };
        Err(Error::Flag { flag: "--dp", found: dp.to_string(), expected })
    }
}
