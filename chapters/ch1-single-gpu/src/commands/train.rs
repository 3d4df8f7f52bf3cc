//! `cargo ch1 train`: a model from random weights, or further from trained ones, on one device.

use crate::memory::state_bytes;
use crate::train::{Outcome, TrainFlags, in_terms_of_flags, interrupt, status};
use anyhow::Context as _;
use clap::Args;
use decoder::Context;
use lab::loaded::Described;
use lab::program::{Output, in_pool};
use lab::progress::Progress;
use std::path::Path;
use std::sync::Arc;
use training::footprint::training_peak;
use training::journal::{End, Journal};
use training::optimiser::Rule;
use training::plan::Plan;
use training::run::Run;

/// What `cargo ch1 train` takes.
#[derive(Args, Debug)]
pub(super) struct Train {
    #[command(flatten)]
    flags: TrainFlags,
}

impl Train {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let flags = &self.flags;
        let (plan, folder) = (flags.plan()?, flags.folder("ch1"));
        let plot = flags.plot(&folder)?;
        flags.may_save()?;
        let described = Described::from_flags(&flags.model, &flags.device)?;
        plan.check(described.config.context).map_err(in_terms_of_flags)?;
        check_machine(&described, &plan)?;
        let outcome = in_pool(lab::startup::threads()?, || self.train(&described, plan, &folder))??;
        outcome.draw(&plot)?;
        flags.save_model(&outcome, &described)?;
        if flags.json {
            lab::program::write_json(out, &outcome.document())?;
        } else {
            outcome.write(&plot, flags.save()?, out)?;
        }
        outcome.ended()
    }

    fn train(&self, described: &Described, plan: Plan, folder: &Path) -> anyhow::Result<Outcome> {
        let (flags, interrupt) = (&self.flags, interrupt());
        let tokenizer = described.tokenizer()?;
        let data = flags.data(described, &tokenizer, &plan)?;
        let model = flags.first_weights(described).context("loading the model")?;
        let mut run = Run::new(plan, model, Arc::new(data), Context::inference()).map_err(in_terms_of_flags)?;
        let mut journal = flags.journal(folder, &mut run)?;
        let (first, progress) = (run.steps_done(), Progress::bar("training", run.plan().steps));
        progress.advance(first);
        let end = journal.train(&mut run, &interrupt, |run| {
            let record = run.step()?;
            progress.say(status(&record));
            progress.advance(1);
            Ok::<_, training::Error>(record)
        })?;
        drop(progress);
        let held_out = (end == End::Done).then(|| flags.held_out(described, &tokenizer, &run)).transpose()?.flatten();
        Ok(Outcome { records: Journal::records(folder)?, first, end, held_out, run })
    }
}

/// Refuses a run that does not fit into this machine: the system would end it without a word.
fn check_machine(described: &Described, plan: &Plan) -> anyhow::Result<()> {
    // On a GPU its own memory counts, and it says so itself.
    if !described.device.is_cpu() {
        return Ok(());
    }
    let optimiser = if plan.rule == Rule::Sgd { 0 } else { state_bytes(described.dtype).optimiser };
    let rows = plan.batch.div_ceil(plan.micro_batches);
    let held = training_peak(&described.config, rows, plan.seq, described.dtype, optimiser).device;
    Ok(lab::memory::check_run("--batch", plan.batch, held)?)
}
