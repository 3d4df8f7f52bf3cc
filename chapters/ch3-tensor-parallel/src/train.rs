//! One rank of a tensor-parallel training run: a part of every layer, all rows of every batch.

use crate::communication::{Exchange, Predictor, Tokens, total};
use crate::{Error, Result, TensorParallel};
use candle_core::{Device, Tensor};
use ch2_data_parallel::traffic::{self, Volume};
use collective::volume::Place;
use collective::{Algorithm, ReduceOp, Topology};
use lab::flags::InjectedFailure;
use std::sync::Arc;
use training::accumulation::forward_backward;
use training::gradients::Gradients;
use training::interrupt::Interrupt;
use training::journal::{End, Journal, Resumed};
use training::metrics::Record;
use training::run::{Computed, Run};

/// A rank in training.
pub struct Trainer<'a> {
    tensor: &'a TensorParallel,
    failure: Option<InjectedFailure>,
    steps: u64,
    agreements: u64,
    /// How often the whole state was gathered.
    saved: u64,
}

impl<'a> Trainer<'a> {
    /// A rank that fails if `failure` says so.
    pub fn new(tensor: &'a TensorParallel, failure: Option<InjectedFailure>) -> Self {
        Self { tensor, failure, steps: 0, agreements: 0, saved: 0 }
    }

    /// One step: forward and backward of all rows, sums of the gradients that need them, and the norm over all ranks.
    ///
    /// # Errors
    /// The computation failed, here or on another rank; the loss or a gradient is not finite.
    pub fn step(&mut self, run: &mut Run) -> Result<Record> {
        InjectedFailure::strike(self.failure, self.tensor.group().rank(), run.steps_done())?;
        let tensor = self.tensor;
        let record = run.step_by(|run| {
            let (plan, step) = (run.plan(), run.steps_done());
            let count = run.batches().batch(step).count();
            let micro_batches = run.batches().rows(step, 0..plan.batch)?.split(plan.micro_batches);
            let sink = Arc::new(Gradients::expected(run.model(), micro_batches.len()));
            let mut context = run.context().clone();
            context.sink = Some(sink.clone());
            let loss = forward_backward(run.model(), &context, &micro_batches, count)?;
            let mut gradients = sink.finish()?;
            tensor.synchronise(&mut gradients)?;
            let norm = tensor.sum_of_squares(&gradients, step)?.sqrt();
            Ok::<_, Error>(Computed { loss, gradients, norm })
        })?;
        self.steps += 1;
        Ok(record)
    }

    /// Whether any rank was asked to end: all must end after the same step.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn agree(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.agreements += 1;
        let mine = Tensor::new(&[u32::from(interrupt.requested())], &Device::Cpu)?;
        Ok(self.tensor.group().all_reduce(&mine, ReduceOp::Max)?.to_vec1::<u32>()?[0] > 0)
    }

    /// All steps that remain; `on_step` hears of each one. The rank that keeps the run's journal gives it; checkpoints are of the whole
    /// model, so any layout goes on from them. `every` steps one is made, and at the end.
    ///
    /// # Errors
    /// As [`Trainer::step`]; a file of the journal cannot be written.
    pub fn train(
        &mut self,
        run: &mut Run,
        interrupt: &Interrupt,
        mut journal: Option<&mut Journal>,
        every: Option<u64>,
        mut on_step: impl FnMut(&Record),
    ) -> Result<End> {
        let mut saved = None;
        let mut asked = false;
        while !run.is_done() && !asked {
            let record = self.step(run)?;
            if let Some(journal) = journal.as_deref_mut() {
                journal.write(&record)?;
            }
            asked = self.agree(interrupt)?;
            on_step(&record);
            if every.is_some_and(|every| run.steps_done().is_multiple_of(every)) {
                saved = Some(run.steps_done());
                self.save(run, journal.as_deref_mut())?;
            }
        }
        if saved != Some(run.steps_done()) {
            self.save(run, journal)?;
        }
        Ok(if run.is_done() { End::Done } else { End::Interrupted })
    }

    /// Gathers the whole state; the rank with the journal writes it.
    fn save(&mut self, run: &Run, journal: Option<&mut Journal>) -> Result<()> {
        self.saved += 1;
        let whole = self.tensor.gather_snapshot(run.snapshot())?;
        match journal {
            Some(journal) => Ok(journal.save(&whole, run.settings())?),
            None => Ok(()),
        }
    }

    /// What this rank must have sent so far, by formula.
    pub fn predicted(&self, run: &Run, algorithm: Algorithm, topology: &Topology) -> Volume {
        let element = run.model().activations().size_in_bytes();
        let formula = self.tensor.predictor(algorithm, topology, element);
        let place = Place::of(self.tensor.group().rank(), self.tensor.group().members(), topology);
        let step = total(&step(&formula, self.tensor, run));
        let widths = run.snapshot().optimiser.tensors.into_iter().chain(run.parameters().clone());
        let one = |(key, tensor): (Arc<str>, Tensor)| {
            let name = self.tensor.weight_of_state(&key).map_or(&*key, |weight| &*weight.name);
            total(&formula.gathering_of(name, tensor.dtype().size_in_bytes()))
        };
        total(&formula.setup())
            + step.times(self.steps)
            + traffic::agreement(algorithm, &place).times(self.agreements)
            + widths.map(one).sum::<Volume>().times(self.saved)
    }
}

/// What one step of `run` sends.
pub fn step(formula: &Predictor, tensor: &TensorParallel, run: &Run) -> Vec<Exchange> {
    let plan = run.plan();
    let (base, longer) = (plan.batch / plan.micro_batches, plan.batch % plan.micro_batches);
    let micro_batches = (0..plan.micro_batches).map(|part| base + usize::from(part < longer));
    let mut exchanges: Vec<_> =
        micro_batches.flat_map(|rows| formula.training(Tokens { rows, seq: plan.seq }, tensor.sequence)).collect();
    exchanges.extend(formula.synchronisation(tensor.is_sequence_parallel()));
    exchanges.extend(formula.norm());
    exchanges
}

/// Brings `run`, which has this rank's part, to the newest state in `folder`, which is whole.
///
/// # Errors
/// There is no usable checkpoint of such a run.
pub fn resume(tensor: &TensorParallel, folder: &std::path::Path, run: &mut Run) -> Result<Resumed> {
    let mut resumed = Resumed { from: None, step: run.steps_done(), skipped: Vec::new() };
    if let Some(latest) = Journal::newest(folder, run)? {
        resumed = Resumed { from: Some(latest.path), step: latest.snapshot.step, skipped: latest.skipped };
        run.restore(tensor.part_of_snapshot(latest.snapshot)?)?;
    }
    Ok(resumed)
}
