//! Ways of doing the same work: what each chapter hands over so that they can be compared.
//!
//! A [`Variant`] is one layout (a single device, two replicas, …). It does the same [`Work`] as every other: continues the same prompts,
//! and computes the gradient of the same batch. [`compare`] runs them and sets each beside the first: the text must be the same, the
//! gradients equal up to rounding; what differs is what each rank holds, what it sends, and how long a step takes.

mod report;
mod text;

pub use report::{Report, Row, largest_difference};
pub use text::Text;

use crate::loaded::Described;
use collective::{Options, Traffic};
use decoder::generation::Options as Generation;
use ledger::{Kind, Snapshot};
use training::Named;
use training::accumulation::Loss;
use training::data::Batch;

/// What every variant does.
#[derive(Debug)]
pub struct Work {
    /// The model.
    pub described: Described,
    /// Token ids to continue.
    pub prompts: Vec<Vec<u32>>,
    /// How.
    pub generation: Generation,
    /// Sequences whose loss and gradient are computed, once.
    pub batch: Batch,
    /// Parts that a pipeline cuts the batch into.
    pub micro_batches: usize,
    /// Links, algorithm and clock of the ranks.
    pub options: Options,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// New token ids per prompt.
    pub tokens: Vec<Vec<u32>>,
    /// Of the whole batch.
    pub loss: Loss,
    /// Full gradients of the batch's mean loss, by checkpoint name.
    pub gradients: Named,
    /// Rank by rank, for the gradient alone.
    pub ranks: Vec<RankOutcome>,
    /// Share of the step in which the average rank waits for others; `None` where there is no pipeline.
    pub bubble: Option<f64>,
}

/// What one rank held and sent for the gradient of the batch.
#[derive(Debug)]
pub struct RankOutcome {
    /// Bytes at most, by kind.
    pub predicted: Vec<(Kind, u64)>,
    /// The same, measured; `None` where nothing is.
    pub memory: Option<Snapshot>,
    /// Bytes sent.
    pub predicted_sent: u64,
    /// The same, counted.
    pub traffic: Traffic,
    /// By the rank's clock.
    pub seconds: f64,
}

/// A way of doing [`Work`].
pub trait Variant {
    /// As the flags that would ask for it: `dp=2`, `tp=2 sequence-parallel`.
    fn name(&self) -> String;

    /// Whether the work is enough for it: a sequence for every replica, tokens for every chunk. By default any is.
    ///
    /// # Errors
    /// It is not; says how much is needed, in terms of flags.
    fn check(&self, _work: &Work) -> crate::Result<()> {
        Ok(())
    }

    /// Does the work.
    ///
    /// # Errors
    /// The layout does not fit the model, or the computation failed.
    fn run(&self, work: &Work) -> anyhow::Result<Outcome>;
}

/// Runs all `variants`; the first is what the others are compared with. `began` hears the name of each before it runs.
///
/// # Errors
/// The work is too little for one of them, which is found before any runs; or one failed, and the message names it.
pub fn compare(variants: &[Box<dyn Variant>], work: &Work, mut began: impl FnMut(&str)) -> anyhow::Result<Report> {
    use anyhow::Context as _;
    variants.iter().try_for_each(|variant| variant.check(work))?;
    let mut report = Report::new(work);
    let mut first: Option<Outcome> = None;
    for variant in variants {
        let name = variant.name();
        began(&name);
        let outcome = variant.run(work).with_context(|| format!("variant {name}"))?;
        report.push(name, work, &outcome, first.as_ref().unwrap_or(&outcome))?;
        first.get_or_insert(outcome);
    }
    Ok(report)
}

/// What a whole model holds for the gradient of `rows` sequences of `seq` tokens: the prediction for one device, and for a replica.
pub fn whole_model(described: &Described, rows: usize, seq: usize) -> Vec<(Kind, u64)> {
    let peak = training::footprint::training_peak(&described.config, rows, seq, described.dtype, 0);
    vec![(Kind::Weights, peak.weights), (Kind::Gradients, peak.gradients), (Kind::Activations, peak.activations)]
}
