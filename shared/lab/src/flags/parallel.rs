//! How many ranks, axis by axis: `--dp` and, with the chapters that need them, the others.

use crate::{Error, Result};
use clap::Args;

/// Ranks of an axis unless its flag says otherwise.
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
        if rows == 0 {
            return Err(Error::Flag { flag: "--batch", found: "0".to_owned(), expected: "at least 1".to_owned() });
        }
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

/// Tensor parallelism. Which numbers of ranks fit is the model's to say.
#[derive(Args, Clone, Copy, Debug)]
pub struct TensorParallelFlags {
    /// Tensor-parallel ranks: each holds a part of every layer
    #[arg(long, visible_alias = "tensor-parallel-size", value_name = "RANKS", default_value_t = DEFAULT)]
    pub tp: usize,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn replicas_need_a_sequence_each_and_the_error_says_how_many_there_may_be() {
        let flags = |dp| DataParallelFlags { dp };
        assert_eq!(flags(None).dp(8, "--batch").unwrap(), 2);
        assert_eq!(flags(None).dp(1, "--batch").unwrap(), 1);
        assert_eq!(flags(Some(8)).dp(8, "--batch").unwrap(), 8);
        assert!(flags(None).dp(0, "--batch").unwrap_err().to_string().contains("--batch 0: at least 1"));
        let message = flags(Some(9)).dp(8, "--batch").unwrap_err().to_string();
        assert!(message.contains("--dp 9") && message.contains("--batch has 8 sequences"), "{message}");
        assert!(message.contains("1 to 8"), "{message}");
        assert!(flags(Some(0)).dp(8, "--batch").unwrap_err().to_string().contains("at least 1"));
    }
}
