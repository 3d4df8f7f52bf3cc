//! What stops 2 and 3 compute: the same batch, the same run, on one rank and on several.

use crate::serve::{gradients, score_own};
use crate::shard::rows_of_rank;
use crate::train::{Replica, Settings};
use crate::{Error, core::Core};
use anyhow::Context as _;
use candle_core::{DType, Tensor};
use ch1_single_gpu::stories;
use collective::{Options, launch};
use decoder::Context;
use decoder::split::Split;
use decoder::weights::random::Random;
use lab::batch::Batch;
use lab::loaded::Described;
use std::sync::Arc;
use training::Named;
use training::data::TokenData;
use training::interrupt::Interrupt;
use training::optimiser::{AdamW, Rule};
use training::plan::Plan;
use training::run::Run;
use training::schedule::Schedule;

/// Sequences of a batch that four ranks do not divide evenly, and tokens of each.
pub(super) const BATCH: (usize, usize) = (6, 32);
pub(super) const STEPS: u64 = 8;

/// A run that was trained.
#[derive(Debug)]
pub struct Trained {
    /// Of each step.
    pub losses: Vec<f64>,
    /// After the last step.
    pub weights: Named,
}

/// Sum of −log p and number of targets of each of two ranks.
///
/// # Errors
/// A rank failed.
pub fn rank_losses(core: &Core, described: &Described, batch: &Batch) -> collective::Result<Vec<(f64, usize)>> {
    launch(2, &Options::default(), |rank| {
        let model = described.load(&Split::whole())?;
        let scores = score_own(core, (rank.size(), rank.rank()), &model, &Context::inference(), batch)?;
        let logs = scores.iter().flat_map(|sequence| &sequence.logprobs);
        Ok::<_, Error>(logs.fold((0.0, 0), |(sum, count), log| (sum - log, count + 1)))
    })
}

/// Loss and gradients of the batch, from all ranks.
///
/// # Errors
/// The computation failed, here or on another rank.
pub fn replica_gradients(
    core: &Core,
    described: &Described,
    batch: &Batch,
    rank: &collective::Rank,
) -> crate::Result<(f64, Named)> {
    let model = described.load(&Split::whole())?;
    let (loss, named) = gradients(core, rank.communicator().as_ref(), &model, &Context::inference(), batch)?;
    Ok((loss.mean(), named))
}

/// The mistake: each of two ranks differentiates its own mean, and the two gradients are averaged.
///
/// # Errors
/// The computation failed.
pub fn mean_of_means(described: &Described, batch: &Batch) -> crate::Result<Named> {
    let model = described.load(&Split::whole())?;
    let rows = batch.sequences().len();
    let half = |rank| {
        let part = batch.rows(rows_of_rank(rows, 2, rank))?;
        Ok::<_, Error>(lab::gradients::gradients(&model, &Context::inference(), &part)?.1)
    };
    let (first, second) = (half(0)?, half(1)?);
    let mean = |(name, a): (&Arc<str>, &Tensor)| Ok((name.clone(), ((a + &second[name])? / 2.0)?));
    first.iter().map(mean).collect()
}

/// Norm of the difference over the norm of `b`; NaN if a name is missing.
///
/// # Errors
/// Two tensors of one name have different shapes.
pub fn apart(a: &Named, b: &Named) -> crate::Result<f64> {
    let squares = |tensor: &Tensor| tensor.sqr()?.sum_all()?.to_dtype(DType::F64)?.to_scalar::<f64>();
    let (mut difference, mut norm) = (0.0, 0.0);
    for (name, one) in b {
        let Some(other) = a.get(name) else { return Ok(f64::NAN) };
        difference += squares(&(other - one)?)?;
        norm += squares(one)?;
    }
    Ok((difference / norm).sqrt())
}

/// Trains on `dp` ranks, eight steps of AdamW with clipping on batches of six sequences; what rank 0 has in the end.
///
/// # Errors
/// A rank failed, or the replicas have diverged.
pub fn trained(core: &Core, described: &Described, dp: usize) -> anyhow::Result<Trained> {
    let (batch, seq) = BATCH;
    let plan = Plan {
        batch,
        seq,
        micro_batches: 1,
        steps: STEPS,
        rule: Rule::AdamW(AdamW::default()),
        schedule: Schedule::constant(3e-3)?,
        clip: Some(1.0),
        seed: 1,
    };
    let vocab = described.config.vocab;
    let ends = described.config.eos.first().copied();
    let tokens = stories::tokens(&described.tokenizer()?, ends, 1, 0, STEPS as usize * batch * seq + 1)?;
    let data = Arc::new(TokenData::new(tokens, vocab)?);
    let ranks = launch(dp, &Options::default(), |rank| {
        let Described { config, dtype, device, .. } = described;
        let model = decoder::Decoder::load(config, &Random::new(1), *dtype, device, &Split::whole())?;
        let mut run = Run::new(plan.clone(), model, data.clone(), Context::inference())?;
        let settings = Settings { core: *core, ..Settings::default() };
        let mut replica = Replica::begin(rank.communicator().as_ref(), &run, settings)?;
        let mut losses = Vec::new();
        replica.train(&mut run, &Interrupt::default(), None, |record| losses.push(record.loss))?;
        Ok::<_, Error>(Trained { losses, weights: run.parameters().clone() })
    })?;
    ranks.into_iter().next().context("rank 0 trains")
}
