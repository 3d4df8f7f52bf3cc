//! Replicas at work on one batch without training: generating, scoring, one backward.
//!
//! Inference needs no communication at all: each rank answers its own rows. Only a gradient is shared.

use crate::core::Core;
use crate::{Error, Result};
use decoder::generation::{Generated, Options, generate};
use decoder::{Context, Decoder};
use lab::batch::Batch;
use lab::score::{SequenceScore, score};
use std::ops::{ControlFlow, Range};
use training::Named;
use training::accumulation::Loss;

/// A rank's rows out of `rows`.
pub(crate) fn own(core: &Core, rows: usize, ranks: usize, rank: usize) -> Result<Range<usize>> {
    let own = (core.rows_of_rank)(rows, ranks, rank);
    if own.start > own.end || own.end > rows {
        return Err(Error::Rows { rank, found: own, rows });
    }
    Ok(own)
}

/// Continues this rank's prompts. A row draws with the seed that it has in the whole batch, so its text does not depend on the layout.
///
/// # Errors
/// As [`generate`].
pub fn generate_own(
    core: &Core,
    (ranks, rank): (usize, usize),
    model: &Decoder,
    ctx: &Context,
    prompts: &[Vec<u32>],
    options: &Options,
) -> Result<Generated> {
    let rows = own(core, prompts.len(), ranks, rank)?;
    let mut options = options.clone();
    options.sampling.seed = options.sampling.seed.wrapping_add(rows.start as u64);
    Ok(generate(model, ctx, &prompts[rows], &options, |_, _| Ok(ControlFlow::Continue(())))?)
}

/// What the ranks generated, as one batch: rows in order, times those of the slowest rank.
pub fn join(parts: Vec<Generated>) -> Generated {
    let slowest = |time: fn(&Generated) -> std::time::Duration| parts.iter().map(time).max().unwrap_or_default();
    let (prefill, decode) = (slowest(|part| part.prefill), slowest(|part| part.decode));
    let steps = parts.iter().map(|part| part.steps).max().unwrap_or(0);
    Generated { ids: parts.into_iter().flat_map(|part| part.ids).collect(), prefill, decode, steps }
}

/// Scores this rank's sequences.
///
/// # Errors
/// As [`score`].
pub fn score_own(
    core: &Core,
    (ranks, rank): (usize, usize),
    model: &Decoder,
    ctx: &Context,
    batch: &Batch,
) -> Result<Vec<SequenceScore>> {
    let rows = own(core, batch.sequences().len(), ranks, rank)?;
    Ok(score(model, ctx, &batch.rows(rows)?)?.sequences)
}

/// Loss and gradients of the whole batch, on every rank: each computes its own sequences, then all are summed.
///
/// # Errors
/// The computation failed, here or on another rank.
pub fn gradients(
    core: &Core,
    group: &dyn collective::Communicator,
    model: &Decoder,
    ctx: &Context,
    batch: &Batch,
) -> Result<(Loss, Named)> {
    let rows = own(core, batch.sequences().len(), group.size(), group.rank())?;
    let (mut loss, mut gradients) = lab::gradients::contribution(model, ctx, &batch.rows(rows)?, batch.targets())?;
    (core.synchronise)(group, &mut loss, &mut gradients)?;
    Ok((loss, gradients))
}
