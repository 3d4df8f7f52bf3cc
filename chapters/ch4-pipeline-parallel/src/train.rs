//! One stage of a training run: its layers, its part of the optimiser, and what all stages agree on in every step.

use crate::engine::{MicroBatch, Outcome, Pipeline, Stage};
use crate::{Error, Result};
use candle_core::{Device, Tensor};
use collective::{Clock, Communicator, ReduceOp};
use lab::flags::InjectedFailure;
use std::path::Path;
use training::Named;
use training::checkpoint::{Latest, Snapshot};
use training::interrupt::Interrupt;
use training::journal::{End, Journal, Resumed};
use training::metrics::Record;
use training::run::{Computed, Run};

/// A stage in training.
pub struct Trainer<'a> {
    /// What all ranks do.
    pub pipeline: &'a Pipeline,
    /// The pipeline's ranks, in the order of the stages.
    pub communicator: &'a dyn Communicator,
    /// This rank's clock.
    pub clock: &'a Clock,
    /// A failure on purpose.
    pub failure: Option<InjectedFailure>,
}

impl Trainer<'_> {
    /// One step: the schedule, then what the stages agree on (tied embeddings, loss, norm), then the optimiser on this stage's
    /// parameters. The outcome has no gradients any more.
    ///
    /// # Errors
    /// As [`Stage::step`] and [`Run::step_by`].
    pub fn step(&self, run: &mut Run) -> Result<(Record, Outcome)> {
        InjectedFailure::strike(self.failure, self.communicator.rank(), run.steps_done())?;
        let mut left = None;
        let record = run.step_by(|run| {
            let Self { pipeline, communicator, clock, .. } = *self;
            let (step, model, context) = (run.steps_done(), run.model(), run.context());
            let batch = run.batches().batch(step);
            let micro_batches = MicroBatch::split(&batch, pipeline.schedule().micro_batches, model.device())?;
            let stage = Stage { pipeline, communicator, clock, model, context };
            let mut outcome = stage.step(&micro_batches, batch.count())?;
            let mut gradients = std::mem::take(&mut outcome.gradients);
            stage.sum_tied(&mut gradients)?;
            let loss = stage.share_loss(outcome.loss)?;
            training::clip::check_loss(loss.mean(), step)?;
            let norm = stage.global_norm(&gradients, step)?;
            left = Some(outcome);
            Ok::<_, Error>(Computed { loss, gradients, norm })
        })?;
        let outcome = left.ok_or_else(|| Error::Schedule("a step without an outcome".to_owned()))?;
        Ok((record, outcome))
    }

    /// All steps that remain; `on_step` hears of each. The first stage keeps the journal, in which checkpoints are whole: any number
    /// of stages can go on from them.
    ///
    /// # Errors
    /// As [`Trainer::step`]; a file of the journal cannot be written.
    pub fn train(
        &self,
        run: &mut Run,
        interrupt: &Interrupt,
        mut journal: Option<&mut Journal>,
        mut on_step: impl FnMut(&Record, &Outcome),
    ) -> Result<End> {
        while !run.is_done() && !self.any(interrupt.requested())? {
            let (record, outcome) = self.step(run)?;
            on_step(&record, &outcome);
            if let Some(journal) = journal.as_deref_mut() {
                journal.write(&record)?;
            }
            let due = journal.as_deref().is_some_and(|journal| journal.is_due(run.steps_done()));
            self.save(run, journal.as_deref_mut(), due)?;
        }
        let lacks = journal.as_deref().is_some_and(|journal| journal.lacks(run.steps_done()));
        self.save(run, journal, lacks)?;
        Ok(if run.is_done() { End::Done } else { End::Interrupted })
    }

    /// A checkpoint, if the stage with the journal wants one.
    fn save(&self, run: &Run, journal: Option<&mut Journal>, wanted: bool) -> Result<()> {
        if self.any(wanted)?
            && let (Some(whole), Some(journal)) = (self.gather(run)?, journal)
        {
            journal.save(&whole, run.settings())?;
        }
        Ok(())
    }

    /// Whether any stage says so.
    fn any(&self, here: bool) -> Result<bool> {
        let here = Tensor::new(&[u32::from(here)], &Device::Cpu)?;
        Ok(self.communicator.all_reduce(&here, ReduceOp::Max)?.to_vec1::<u32>()?[0] > 0)
    }

    /// The whole run's state, on the first stage: every other sends its part, tensor by tensor.
    ///
    /// # Errors
    /// Communication failed.
    pub fn gather(&self, run: &Run) -> Result<Option<Snapshot>> {
        let _kind = ledger::scope(ledger::Kind::Host);
        let mut snapshot = run.snapshot();
        if self.communicator.rank() > 0 {
            for part in [&snapshot.weights, &snapshot.optimiser.tensors] {
                send_named(self.communicator, part)?;
            }
            return Ok(None);
        }
        for from in 1..self.communicator.size() {
            let mut part = Snapshot { weights: receive_named(self.communicator, from)?, ..Snapshot::default() };
            part.optimiser.tensors = receive_named(self.communicator, from)?;
            snapshot.join(part);
        }
        Ok(Some(snapshot))
    }

    /// Brings `run` to the state of the newest checkpoint in `folder`, of which it takes its part. Returns where it goes on.
    ///
    /// # Errors
    /// As [`Journal::newest`]; the checkpoint is of another model.
    pub fn restore(folder: &Path, run: &mut Run) -> Result<Resumed> {
        let mut resumed = Resumed { from: None, step: run.steps_done(), skipped: Vec::new() };
        if let Some(Latest { path, snapshot, skipped }) = Journal::newest(folder, run)? {
            resumed = Resumed { from: Some(path), step: snapshot.step, skipped };
            let part = snapshot.part(run.parameters());
            run.restore(part)?;
        }
        Ok(resumed)
    }
}

/// Names as one message, then each tensor.
fn send_named(communicator: &dyn Communicator, named: &Named) -> Result<()> {
    let names: Vec<&str> = named.keys().map(|name| &**name).collect();
    let text: Vec<u32> = names.join("\n").bytes().map(u32::from).collect();
    communicator.send(&Tensor::new(text, &Device::Cpu)?, 0)?;
    named.values().try_for_each(|tensor| Ok(communicator.send(tensor, 0)?))
}

fn receive_named(communicator: &dyn Communicator, from: usize) -> Result<Named> {
    let text = communicator.recv(from)?.to_vec1::<u32>()?;
    let text: Vec<u8> = text.into_iter().map(|byte| byte as u8).collect();
    let names = String::from_utf8_lossy(&text);
    names.split('\n').filter(|name| !name.is_empty()).map(|name| Ok((name.into(), communicator.recv(from)?))).collect()
}
