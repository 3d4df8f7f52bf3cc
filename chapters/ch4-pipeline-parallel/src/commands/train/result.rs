//! What the stages of a run held and sent, beside what they had to.

use super::Job;
use crate::engine::MicroBatch;
use crate::flags::Choice;
use crate::memory;
use ch1_single_gpu::train::Outcome;
use collective::{Operation, Traffic};
use lab::program::Output;
use lab::{Table, numbers};
use ledger::{Bytes, Kind, Snapshot};
use serde_json::{Value, json};
use std::io::Write;
use training::journal::End;

/// What one stage leaves behind.
pub(super) struct StageResult {
    /// The step that it began with.
    pub(super) first: u64,
    pub(super) end: End,
    pub(super) traffic: Traffic,
    pub(super) memory: Option<Snapshot>,
    /// By its clock, from the first step on.
    pub(super) seconds: f64,
    /// Micro-batches in flight at most, in chunks.
    pub(super) peak: usize,
    /// Whether the loss was computed here.
    pub(super) loss_here: bool,
    /// On the first stage, the state of all of them.
    pub(super) whole: Option<training::checkpoint::Snapshot>,
}

/// All stages of a run.
pub(super) struct Layout<'a> {
    pub(super) job: &'a Job,
    pub(super) clock: String,
    pub(super) schedule: Choice,
    pub(super) ranks: Vec<StageResult>,
}

impl Layout<'_> {
    /// The document of one device, and what is new with several stages.
    pub(super) fn document(&self, outcome: &Outcome) -> Value {
        let mut document = outcome.document();
        let peaks = &self.job.pipeline.peaks().in_flight;
        let ranks = self.ranks.iter().zip(peaks).map(|(rank, predicted)| {
            json!({
                "sent": rank.traffic.sent().total(),
                "messages": rank.traffic.of(Operation::Send).0,
                "device_peak": rank.memory.as_ref().map(|memory| memory.device().peak),
                "peak_in_flight": rank.peak,
                "predicted_peak_in_flight": predicted,
                "loss": rank.loss_here,
                "seconds": rank.seconds,
            })
        });
        document["pp"] = json!(self.ranks.len());
        document["micro_batches"] = json!(self.job.plan.micro_batches);
        document["schedule"] = json!(self.schedule.to_string());
        document["clock"] = json!(self.clock);
        document["ranks"] = ranks.collect();
        document
    }

    pub(super) fn write(&self, outcome: &Outcome, out: &mut Output) -> anyhow::Result<()> {
        // Those that this run took: not those of the run that it went on with, nor those that Ctrl-C left out.
        let (pp, steps) = (self.ranks.len(), outcome.run.steps_done().saturating_sub(outcome.first));
        if steps == 0 {
            return Ok(writeln!(out, "\nno step was taken: there is nothing to predict or to measure")?);
        }
        writeln!(
            out,
            "\n{pp} stages, {}, {} micro-batches; in {steps} steps:\n",
            self.schedule, self.job.plan.micro_batches
        )?;
        writeln!(out, "{}\n", self.table()?)?;
        let slowest = self.ranks.iter().map(|rank| rank.seconds).fold(0.0, f64::max);
        let each = numbers::seconds(slowest / steps as f64);
        writeln!(out, "a step takes {each} on {}", self.clock)?;
        Ok(())
    }

    fn table(&self) -> anyhow::Result<Table> {
        let job = self.job;
        let batch =
            training::data::Batches::new(job.data.clone(), job.plan.seed, job.plan.batch, job.plan.seq)?.batch(0);
        let parts = MicroBatch::split(&batch, job.plan.micro_batches, &job.described.device)?;
        let mut table = Table::new([
            "stage",
            "in flight",
            "predicted",
            "weights",
            "predicted",
            "gradients",
            "activations",
            "predicted",
            "sent",
        ]);
        for (stage, rank) in self.ranks.iter().enumerate() {
            let predicted = memory::predicted(&job.described, &job.pipeline, &parts, stage);
            let formula = |kind| predicted.iter().find(|(of, _)| *of == kind).map_or(0, |(_, bytes)| *bytes);
            let held = |kind| rank.memory.as_ref().map_or("-".to_owned(), |m| Bytes(m.of(kind).peak).to_string());
            table.push([
                stage.to_string(),
                rank.peak.to_string(),
                job.pipeline.peaks().in_flight[stage].to_string(),
                held(Kind::Weights),
                Bytes(formula(Kind::Weights)).to_string(),
                held(Kind::Gradients),
                held(Kind::Activations),
                Bytes(formula(Kind::Activations)).to_string(),
                Bytes(rank.traffic.sent().total()).to_string(),
            ]);
        }
        Ok(table)
    }
}
