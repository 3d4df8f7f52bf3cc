//! What the ranks of a run held and sent, beside what they had to.

use super::Job;
use crate::traffic::Volume;
use ch1_single_gpu::train::Outcome;
use collective::Traffic;
use lab::compared::Unit;
use lab::program::Output;
use lab::{Compared, Comparison, Table, numbers};
use ledger::{Bytes, Kind, Snapshot};
use serde_json::{Value, json};
use std::io::Write;
use training::journal::End;
use training::run::Run;

/// Ranks that are shown one by one.
const SHOWN: usize = 8;

/// What one rank leaves behind.
pub(super) struct RankResult {
    /// The step that it began with.
    pub(super) first: u64,
    pub(super) end: End,
    pub(super) predicted: Volume,
    pub(super) traffic: Traffic,
    pub(super) memory: Option<Snapshot>,
    /// By its clock, from the first step on.
    pub(super) seconds: f64,
    /// Rank 0's.
    pub(super) run: Option<Run>,
}

impl RankResult {
    fn is_as_predicted(&self) -> bool {
        (self.traffic.calls(), self.traffic.sent()) == (self.predicted.calls, self.predicted.sent)
    }
}

/// All ranks of a run.
pub(super) struct Layout<'a> {
    pub(super) job: &'a Job,
    pub(super) clock: String,
    pub(super) ranks: Vec<RankResult>,
}

impl Layout<'_> {
    /// The document of one device, and what is new with several.
    pub(super) fn document(&self, outcome: &Outcome) -> Value {
        let mut document = outcome.document();
        let ranks = self.ranks.iter().map(|rank| {
            json!({
                "sent": rank.traffic.sent().total(),
                "predicted_sent": rank.predicted.sent.total(),
                "calls": rank.traffic.calls(),
                "predicted_calls": rank.predicted.calls,
                "device_peak": rank.memory.as_ref().map(|memory| memory.device().peak),
                "seconds": rank.seconds,
            })
        });
        document["dp"] = json!(self.ranks.len());
        document["algorithm"] = json!(self.job.options.algorithm.name());
        document["clock"] = json!(self.clock);
        document["ranks"] = ranks.collect();
        document
    }

    pub(super) fn write(&self, outcome: &Outcome, out: &mut Output) -> anyhow::Result<()> {
        // Those that this run took: not those of the run that it went on with, nor those that Ctrl-C left out.
        let (dp, steps) = (self.ranks.len(), outcome.run.steps_done().saturating_sub(outcome.first));
        if steps == 0 {
            return Ok(writeln!(out, "\nno step was taken: there is nothing to predict or to measure")?);
        }
        writeln!(out, "\n{dp} ranks, {}; sent by each, in {steps} steps:\n", self.job.options.algorithm)?;
        writeln!(out, "{}\n", self.traffic())?;
        if dp > SHOWN {
            let wrong = self.ranks.iter().filter(|rank| !rank.is_as_predicted()).count();
            writeln!(out, "{} more ranks; of all {dp}, {wrong} sent other than predicted\n", dp - SHOWN)?;
        }
        if self.ranks.iter().any(|rank| rank.memory.is_some()) {
            writeln!(out, "held by each, at most:\n\n{}\n", self.memory())?;
        }
        let slowest = self.ranks.iter().map(|rank| rank.seconds).fold(0.0, f64::max);
        let each = numbers::seconds(slowest / steps as f64);
        writeln!(out, "a step takes {each} on {}", self.clock)?;
        Ok(())
    }

    /// Bytes and calls of each rank: predicted, counted.
    fn traffic(&self) -> Comparison {
        self.ranks.iter().take(SHOWN).enumerate().fold(Comparison::default(), |comparison, (rank, result)| {
            let (calls, sent) = (result.traffic.calls(), result.traffic.sent().total());
            comparison
                .with(Compared::exact(format!("rank {rank}: calls"), result.predicted.calls, Some(calls), Unit::Count))
                .with(Compared::exact(
                    format!("rank {rank}: bytes"),
                    result.predicted.sent.total(),
                    Some(sent),
                    Unit::Bytes,
                ))
        })
    }

    /// Bytes of each rank by kind.
    fn memory(&self) -> Table {
        let kinds = [Kind::Weights, Kind::Gradients, Kind::Optimiser, Kind::Activations, Kind::Communication];
        let names = kinds.iter().map(|kind| kind.name());
        let mut table = Table::new(["rank"].into_iter().chain(names).chain(["device"]));
        for (rank, result) in self.ranks.iter().take(SHOWN).enumerate() {
            let Some(memory) = &result.memory else { continue };
            let cells = kinds.iter().map(|&kind| memory.of(kind)).chain([memory.device()]);
            let cells = cells.map(|usage| Bytes(usage.peak).to_string());
            table.push([rank.to_string()].into_iter().chain(cells));
        }
        table
    }
}
