//! A part of a batch, as it passes through the pipeline.

use crate::{Error, Result};
use candle_core::Device;
use decoder::Tokens;
use training::data::Batch;

/// Some sequences and what should follow each token. Every stage has it: all need the positions, the first the ids, the last the
/// targets.
#[derive(Clone, Debug)]
pub struct MicroBatch {
    /// Ids and positions.
    pub tokens: Tokens,
    /// One per token, batch-major, padding included.
    pub targets: Vec<u32>,
}

impl MicroBatch {
    /// `batch` in `count` parts of consecutive rows, as equal as possible.
    ///
    /// # Errors
    /// More parts than rows, or none.
    pub fn split(batch: &Batch, count: usize, device: &Device) -> Result<Vec<Self>> {
        legal(count, batch.rows)?;
        let parts = batch.split(count).into_iter();
        parts.map(|part| Ok(Self { tokens: part.tokens(device)?, targets: part.targets })).collect()
    }

    /// `batch` in `count` parts of consecutive sequences, of any lengths. Sequences of one token predict nothing and are left out: a part
    /// of these alone would have no tokens.
    ///
    /// # Errors
    /// More parts than sequences that are left, or none.
    pub fn split_sequences(batch: &lab::batch::Batch, count: usize, device: &Device) -> Result<Vec<Self>> {
        let batch = batch.predicting();
        let rows = batch.sequences().len();
        legal(count, rows)?;
        let (base, longer) = (rows / count, rows % count);
        let mut next = 0;
        let mut part = |index: usize| {
            let size = base + usize::from(index < longer);
            next += size;
            let (tokens, targets) = batch.rows(next - size..next)?.inputs_and_targets(device)?;
            Ok(Self { tokens, targets })
        };
        (0..count).map(&mut part).collect()
    }
}

fn legal(count: usize, rows: usize) -> Result<()> {
    if (1..=rows).contains(&count) {
        return Ok(());
    }
    let expected = format!("a micro-batch has at least one of the batch's {rows} sequences: 1 to {rows}");
    Err(Error::Setting { name: "micro-batches", found: count.to_string(), expected })
}
