//! `cargo ch3 train`: ranks that share every layer, exactly what one device does.
//!
//! Rank 0 keeps the run's journal. Checkpoints are of the whole model: a run goes on under any layout of this chapter, or on one device.

mod result;

use super::sequence::SequenceFlags;
use crate::core::Core;
use crate::memory::{Step, training};
use crate::train::{Trainer, resume};
use crate::{Layout, TensorParallel};
use ::training::data::TokenData;
use ::training::interrupt::Interrupt;
use ::training::journal::{End, Journal};
use ::training::optimiser::Rule;
use ::training::plan::Plan;
use ::training::run::Run;
use anyhow::Context as _;
use ch1_single_gpu::memory::state_bytes;
use ch1_single_gpu::train::{Outcome, TrainFlags, in_terms_of_flags, interrupt, save_companions, status};
use clap::Args;
use collective::{Options, Rank, launch};
use decoder::tokenizer::Tokenizer;
use lab::flags::{ClusterFlags, FailureFlags, InjectedFailure, MemoryFlags, TensorParallelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::Output;
use lab::progress::Progress;
use result::{RankResult, Ranks};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What `cargo ch3 train` takes.
#[derive(Args, Debug)]
pub(super) struct Train {
    #[command(flatten)]
    flags: TrainFlags,
    #[command(flatten)]
    parallel: TensorParallelFlags,
    #[command(flatten)]
    sequence: SequenceFlags,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    memory: MemoryFlags,
    #[command(flatten)]
    failure: FailureFlags,
}

/// Everything that was decided before the ranks start, and what they share.
struct Job {
    flags: TrainFlags,
    sequence: SequenceFlags,
    core: Core,
    plan: Plan,
    described: Described,
    tokenizer: Tokenizer,
    data: Arc<TokenData>,
    folder: PathBuf,
    options: Options,
    failure: Option<InjectedFailure>,
    interrupt: Interrupt,
    /// Begun before the ranks are, so that a folder that is taken is found at once; rank 0 takes it.
    journal: Mutex<Option<Journal>>,
}

impl Train {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let flags = self.flags;
        let (plan, folder) = (flags.plan()?, flags.folder("ch3"));
        let plot = flags.plot(&folder)?;
        flags.may_save()?;
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&flags.model, &flags.device)?;
        let layout = Layout::new(&described.config, self.parallel.tp)?;
        let tp = layout.tp();
        let failure = self.failure.of(tp, plan.steps)?;
        plan.check(described.config.context).map_err(in_terms_of_flags)?;
        check_machine(&layout, &described, &plan, self.sequence)?;
        let options = self.cluster.options(described.dtype, &self.memory)?;
        let tokenizer = described.tokenizer()?;
        let data = Arc::new(flags.data(&described, &tokenizer, &plan)?);
        let journal = Mutex::new(if flags.resumes() { None } else { Some(flags.begin(&folder)?) });
        let (sequence, interrupt) = (self.sequence, interrupt());
        let job = Job {
            flags,
            sequence,
            core,
            plan,
            described,
            tokenizer,
            data,
            folder,
            options,
            failure,
            interrupt,
            journal,
        };

        let mut ranks = launch(tp, &job.options, |rank| job.rank(rank)).context("training")?;
        let run = ranks[0].run.take().context("rank 0 keeps the run")?;
        let (end, first, held_out) = (ranks[0].end, ranks[0].first, ranks[0].held_out);
        let outcome = Outcome { run, end, first, records: Journal::records(&job.folder)?, held_out };
        outcome.draw(&plot)?;
        let shown = Ranks { clock: self.cluster.clock_text(), job: &job, ranks };
        if job.flags.json {
            lab::program::write_json(out, &shown.document(&outcome))?;
        } else {
            outcome.write(&plot, job.flags.save()?, out)?;
            shown.write(&outcome, out)?;
        }
        outcome.ended()
    }
}

/// Ranks are threads of this machine: all of them have to fit into it.
fn check_machine(layout: &Layout, described: &Described, plan: &Plan, sequence: SequenceFlags) -> anyhow::Result<()> {
    let optimiser = if plan.rule == Rule::Sgd { 0 } else { state_bytes(described.dtype).optimiser };
    let rows = plan.batch.div_ceil(plan.micro_batches);
    let step = Step { rows, seq: plan.seq, dtype: described.dtype, optimiser };
    let each = training(layout, 0, step, sequence.inputs()).iter().map(|(_, bytes)| bytes).sum();
    Ok(lab::memory::check_machine("--tp", layout.tp(), each)?)
}

impl Job {
    /// The life of one rank.
    fn rank(&self, rank: &Rank) -> anyhow::Result<RankResult> {
        let keeper = rank.rank() == 0;
        let tensor = self.sequence.tensor(self.core, &self.described.config, rank)?;
        let model = self.flags.first_weights_of(&self.described, &tensor.training_split());
        let model = model.context("loading the model")?;
        let context = tensor.training(rank.observer());
        let mut run = Run::new(self.plan.clone(), model, self.data.clone(), context).map_err(in_terms_of_flags)?;
        let mut journal = self.journal(&tensor, keeper, &mut run)?;
        let (first, begun) = (run.steps_done(), rank.clock().now());
        let progress = keeper.then(|| Progress::bar("training", run.plan().steps));
        let on_step = |record: &::training::metrics::Record| {
            if let Some(progress) = &progress {
                progress.say(status(record));
                progress.advance(1);
            }
        };
        let every = self.flags.checkpoint_every().map(std::num::NonZeroU64::get);
        let mut trainer = Trainer::new(&tensor, self.failure);
        let end = trainer.train(&mut run, &self.interrupt, journal.as_mut(), every, on_step)?;
        let predicted = trainer.predicted(&run, self.options.algorithm, &self.options.topology);
        // Before the held-out text and the saved model, which are no part of the training.
        let (traffic, memory, seconds) = (rank.traffic(), rank.ledger().snapshot(), rank.clock().now() - begun);
        let held_out = match end {
            End::Done => self.flags.held_out(&self.described, &self.tokenizer, &run)?,
            End::Interrupted => None,
        };
        if let (End::Done, Some(folder)) = (end, self.flags.save()?) {
            tensor.save(run.parameters(), folder).context("saving the trained model")?;
            if keeper {
                save_companions(&self.described.source, folder)?;
            }
        }
        let run = keeper.then_some(run);
        Ok(RankResult { first, end, predicted, traffic, memory, seconds, held_out, run })
    }

    /// Rank 0 gets the journal; every rank of a run that goes on reads its part of the state.
    fn journal(&self, tensor: &TensorParallel, keeper: bool, run: &mut Run) -> anyhow::Result<Option<Journal>> {
        if !self.flags.resumes() {
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(if keeper { journal.take() } else { None });
        }
        let resumed = resume(tensor, &self.folder, run)?;
        if !keeper {
            return Ok(None);
        }
        self.flags.say_resumed(&self.folder, &resumed);
        Ok(Some(Journal::resume_after(&self.folder, &resumed, self.flags.checkpoint_every())?))
    }
}
