//! `cargo ch4 train`: several stages, exactly what one device does.
//!
//! The first stage keeps the run's journal. Its checkpoints hold the whole model, gathered from all stages, so that a run can go on with
//! another number of stages, or on one device.

mod result;

use crate::core::Core;
use crate::engine::{MicroBatch, Pipeline};
use crate::flags::{ScheduleFlags, StageFlags, in_terms_of_flags};
use crate::memory;
use crate::train::Trainer;
use anyhow::Context as _;
use ch1_single_gpu::memory::state_bytes;
use ch1_single_gpu::train::{Outcome, TrainFlags, in_terms_of_flags as in_terms_of_train_flags, interrupt, status};
use clap::Args;
use collective::{Options, Rank, launch};
use decoder::split::Split;
use decoder::{Context, Decoder};
use lab::flags::{ClusterFlags, FailureFlags, InjectedFailure, MemoryFlags, WithFlags};
use lab::loaded::Described;
use lab::program::Output;
use lab::progress::Progress;
use result::{Layout, StageResult};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use training::data::{Batch, TokenData};
use training::interrupt::Interrupt;
use training::journal::{End, Journal};
use training::optimiser::Rule;
use training::plan::Plan;
use training::run::Run;

/// What `cargo ch4 train` takes.
#[derive(Args, Debug)]
pub(super) struct Train {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    flags: TrainFlags,
    #[command(flatten)]
    stages: StageFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
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
    plan: Plan,
    described: Described,
    data: Arc<TokenData>,
    folder: PathBuf,
    pipeline: Pipeline,
    options: Options,
    failure: Option<InjectedFailure>,
    interrupt: Interrupt,
    /// Begun before the ranks are, so that a folder that is taken is found at once; the first stage takes it.
    journal: Mutex<Option<Journal>>,
}

impl Train {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let flags = self.flags;
        let (mut plan, folder) = (flags.plan()?, flags.folder("ch4"));
        let plot = flags.plot(&folder)?;
        flags.may_save()?;
        // Two per stage, as far as the batch has rows: fewer would leave most stages waiting.
        plan.micro_batches = flags.micro_batches().unwrap_or((2 * self.stages.pp).min(plan.batch).max(1));
        if !(1..=plan.batch).contains(&plan.micro_batches) {
            let expected = format!("at least one sequence each: 1 to the {} of the batch", plan.batch);
            let found = plan.micro_batches.to_string();
            return Err(lab::Error::Flag { flag: "--micro-batches", found, expected }.into());
        }
        let described = Described::from_flags(&flags.model, &flags.device)?;
        plan.check(described.config.context).map_err(in_terms_of_train_flags)?;
        let pipeline = self
            .stages
            .pipeline(&Core::choose(&self.with)?, &self.schedule, plan.micro_batches, &described.config, plan.seq)
            .map_err(in_terms_of_flags)?;
        check_machine(&described, &pipeline, &plan)?;
        let failure = self.failure.of(self.stages.pp, plan.steps)?;
        let options = self.cluster.options(described.dtype, &self.memory)?;
        let tokenizer = described.tokenizer()?;
        let data = Arc::new(flags.data(&described, &tokenizer, &plan)?);
        let journal = Mutex::new(if flags.resumes() { None } else { Some(flags.begin(&folder)?) });
        let interrupt = interrupt();
        let job = Job { flags, plan, described, data, folder, pipeline, options, failure, interrupt, journal };

        let mut ranks = launch(self.stages.pp, &job.options, |rank| job.stage(rank)).context("training")?;
        let run = job.whole(ranks[0].whole.take().context("the first stage gathers the run")?)?;
        let end = ranks[0].end;
        let held_out = (end == End::Done).then(|| job.flags.held_out(&job.described, &tokenizer, &run)).transpose()?;
        let records = Journal::records(&job.folder)?;
        let outcome = Outcome { run, end, first: ranks[0].first, records, held_out: held_out.flatten() };
        outcome.draw(&plot)?;
        job.flags.save_model(&outcome, &job.described)?;
        let layout = Layout { clock: self.cluster.clock_text(), schedule: self.schedule.schedule, job: &job, ranks };
        if job.flags.json {
            lab::program::write_json(out, &layout.document(&outcome))?;
        } else {
            outcome.write(&plot, job.flags.save()?, out)?;
            layout.write(&outcome, out)?;
        }
        outcome.ended()
    }
}

/// Stages are threads of this machine: what all of them hold has to fit into it.
fn check_machine(described: &Described, pipeline: &Pipeline, plan: &Plan) -> anyhow::Result<()> {
    // On a GPU its own memory counts, and it says so itself.
    if !described.device.is_cpu() {
        return Ok(());
    }
    let tokens = vec![0; plan.batch * plan.seq];
    let batch = Batch { inputs: tokens.clone(), targets: tokens, rows: plan.batch, seq: plan.seq };
    let parts = MicroBatch::split(&batch, plan.micro_batches, &described.device).map_err(in_terms_of_flags)?;
    let optimiser = if plan.rule == Rule::Sgd { 0 } else { state_bytes(described.dtype).optimiser };
    let stage = |stage| {
        let predicted = memory::predicted(described, pipeline, &parts, stage);
        let state = pipeline.stages().parameters(&described.config, stage).saturating_mul(optimiser);
        predicted.iter().map(|(_, bytes)| *bytes).fold(state, u64::saturating_add)
    };
    let all = (0..pipeline.schedule().stages.len()).map(stage).fold(0, u64::saturating_add);
    Ok(lab::memory::check_run("--batch", plan.batch, all)?)
}

impl Job {
    /// A run of the part of the model that `split` places here, at its first step.
    fn part(&self, split: Split, context: Context) -> anyhow::Result<Run> {
        let Described { config, dtype, device, .. } = &self.described;
        let weights = self.flags.weights(&self.described)?;
        let model = Decoder::load(config, &*weights, *dtype, device, &split).context("loading the model")?;
        Run::new(self.plan.clone(), model, self.data.clone(), context.with_split(split))
            .map_err(in_terms_of_train_flags)
    }

    /// The life of one rank.
    fn stage(&self, rank: &Rank) -> anyhow::Result<StageResult> {
        let keeper = rank.rank() == 0;
        let split = self.pipeline.stages().split(rank.rank());
        let mut run = self.part(split, Context::inference().with_observer(rank.observer()))?;
        let mut journal = self.journal(keeper, &mut run)?;
        let (first, begun) = (run.steps_done(), rank.clock().now());
        let progress = keeper.then(|| Progress::bar("training", run.plan().steps));
        let communicator = rank.communicator().as_ref();
        let trainer = Trainer { pipeline: &self.pipeline, communicator, clock: rank.clock(), failure: self.failure };
        let (mut peak, mut loss_here) = (0, false);
        let end = trainer.train(&mut run, &self.interrupt, journal.as_mut(), |record, outcome| {
            peak = peak.max(outcome.peak_in_flight);
            loss_here |= outcome.loss.is_some();
            if let Some(progress) = &progress {
                progress.say(status(record));
                progress.advance(1);
            }
        })?;
        let seconds = rank.clock().now() - begun;
        let memory = rank.ledger().snapshot();
        let traffic = rank.traffic();
        let whole = trainer.gather(&run)?;
        Ok(StageResult { first, end, traffic, memory, seconds, peak, loss_here, whole })
    }

    /// The first stage gets the journal; a stage that goes on with a run takes its part of the checkpoint.
    fn journal(&self, keeper: bool, run: &mut Run) -> anyhow::Result<Option<Journal>> {
        if !self.flags.resumes() {
            return Ok(if keeper { self.journal.lock().unwrap_or_else(PoisonError::into_inner).take() } else { None });
        }
        let resumed = Trainer::restore(&self.folder, run)?;
        if !keeper {
            return Ok(None);
        }
        let mut stderr = std::io::stderr();
        for skipped in &resumed.skipped {
            let _ = writeln!(stderr, "not used: {}: {}", skipped.path.display(), skipped.reason);
        }
        let _ = match &resumed.from {
            Some(path) => writeln!(stderr, "resuming after {} steps, from {}", resumed.step, path.display()),
            None => writeln!(stderr, "no checkpoint in {} yet: starting at step 0", self.folder.display()),
        };
        Ok(Some(Journal::resume_after(&self.folder, &resumed, self.flags.checkpoint_every())?))
    }

    /// The whole run, from what the stages gathered.
    fn whole(&self, snapshot: training::checkpoint::Snapshot) -> anyhow::Result<Run> {
        let mut run = self.part(Split::whole(), Context::inference())?;
        run.restore(snapshot)?;
        Ok(run)
    }
}
