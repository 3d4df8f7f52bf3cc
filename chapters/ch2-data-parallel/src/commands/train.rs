//! `cargo ch2 train`: several replicas, exactly what one device does.
//!
//! Rank 0 keeps the run's journal. If any rank fails, a surviving one saves the state: all of them have it.

mod result;

use crate::train::{Replica, Settings};
use crate::{Error, core::Core};
use anyhow::Context as _;
use ch1_single_gpu::memory::state_bytes;
use ch1_single_gpu::train::{Outcome, TrainFlags, in_terms_of_flags, interrupt, status};
use clap::Args;
use collective::{Options, Rank, launch};
use decoder::Context;
use lab::flags::{ClusterFlags, DataParallelFlags, FailureFlags, MemoryFlags, WithFlags};
use lab::loaded::Described;
use lab::program::Output;
use lab::progress::Progress;
use result::{Layout, RankResult};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use training::data::TokenData;
use training::footprint::training_peak;
use training::interrupt::Interrupt;
use training::journal::{End, Journal};
use training::optimiser::Rule;
use training::plan::Plan;
use training::run::Run;

/// What `cargo ch2 train` takes.
#[derive(Args, Debug)]
pub(super) struct Train {
    #[command(flatten)]
    flags: TrainFlags,
    #[command(flatten)]
    parallel: DataParallelFlags,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    memory: MemoryFlags,
    #[command(flatten)]
    failure: FailureFlags,
    /// Compare the replicas after every so many steps; 0: at the start and at the end only
    #[arg(long, value_name = "STEPS", default_value_t = 10)]
    check_every: u64,
}

/// Everything that was decided before the ranks start, and what they share.
struct Job {
    flags: TrainFlags,
    plan: Plan,
    described: Described,
    data: Arc<TokenData>,
    folder: PathBuf,
    options: Options,
    settings: Settings,
    interrupt: Interrupt,
    /// Begun before the ranks are, so that a folder that is taken is found at once; rank 0 takes it.
    journal: Mutex<Option<Journal>>,
}

impl Train {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let flags = self.flags;
        let (plan, folder) = (flags.plan()?, flags.folder("ch2"));
        let plot = flags.plot(&folder)?;
        flags.may_save()?;
        let dp = self.parallel.dp(plan.batch, "--batch")?;
        let settings = Settings {
            core: Core::choose(&self.with)?,
            check_every: self.check_every,
            failure: self.failure.of(dp, plan.steps)?,
        };
        let described = Described::from_flags(&flags.model, &flags.device)?;
        plan.check(described.config.context).map_err(in_terms_of_flags)?;
        check_machine(dp, &described, &plan)?;
        let options = self.cluster.options(described.dtype, &self.memory)?;
        let tokenizer = described.tokenizer()?;
        let data = Arc::new(flags.data(&described, &tokenizer, &plan)?);
        let journal = Mutex::new(if flags.resumes() { None } else { Some(flags.begin(&folder)?) });
        let job = Job { flags, plan, described, data, folder, options, settings, interrupt: interrupt(), journal };

        let mut ranks = launch(dp, &job.options, |rank| job.replica(rank)).context("training")?;
        let run = ranks[0].run.take().context("rank 0 keeps the run")?;
        let end = ranks[0].end;
        let held_out = (end == End::Done).then(|| job.flags.held_out(&job.described, &tokenizer, &run)).transpose()?;
        let records = Journal::records(&job.folder)?;
        let outcome = Outcome { run, end, first: ranks[0].first, records, held_out: held_out.flatten() };
        outcome.draw(&plot)?;
        job.flags.save_model(&outcome, &job.described)?;
        let layout = Layout { clock: self.cluster.clock_text(), job: &job, ranks };
        if job.flags.json {
            lab::program::write_json(out, &layout.document(&outcome))?;
        } else {
            outcome.write(&plot, job.flags.save()?, out)?;
            layout.write(&outcome, out)?;
        }
        outcome.ended()
    }
}

/// Replicas are threads of this machine: all of them have to fit into it.
fn check_machine(dp: usize, described: &Described, plan: &Plan) -> anyhow::Result<()> {
    let rows = plan.batch.div_ceil(dp).div_ceil(plan.micro_batches);
    let optimiser = if plan.rule == Rule::Sgd { 0 } else { state_bytes(described.dtype).optimiser };
    let each = training_peak(&described.config, rows, plan.seq, described.dtype, optimiser).device;
    Ok(lab::memory::check_machine("--dp", dp, each)?)
}

impl Job {
    /// The life of one rank.
    fn replica(&self, rank: &Rank) -> anyhow::Result<RankResult> {
        let keeper = rank.rank() == 0;
        let model = self.flags.first_weights(&self.described).context("loading the model")?;
        let context = Context::inference().with_observer(rank.observer());
        let mut run = Run::new(self.plan.clone(), model, self.data.clone(), context).map_err(in_terms_of_flags)?;
        let mut journal = self.journal(keeper, &mut run)?;
        let (first, begun) = (run.steps_done(), rank.clock().now());
        let progress = keeper.then(|| Progress::bar("training", run.plan().steps));
        let on_step = |record: &training::metrics::Record| {
            if let Some(progress) = &progress {
                progress.say(status(record));
                progress.advance(1);
            }
        };
        let group = rank.communicator().as_ref();
        let mut replica = Replica::begin(group, &run, self.settings)?;
        let trained = replica.train(&mut run, &self.interrupt, journal.as_mut(), on_step);
        let end = match trained {
            Ok(end) => end,
            Err(error) => return Err(self.rescue(rank, &run, error)),
        };
        let predicted = replica.predicted(&run, self.options.algorithm, &self.options.topology);
        Ok(RankResult {
            first,
            end,
            predicted,
            traffic: rank.traffic(),
            memory: rank.ledger().snapshot(),
            seconds: rank.clock().now() - begun,
            run: keeper.then_some(run),
        })
    }

    /// Rank 0 gets the journal; a rank that goes on with a run reads its state.
    fn journal(&self, keeper: bool, run: &mut Run) -> anyhow::Result<Option<Journal>> {
        match (keeper, self.flags.resumes()) {
            (true, true) => self.flags.go_on(&self.folder, run).map(Some),
            (true, false) => Ok(self.journal.lock().unwrap_or_else(PoisonError::into_inner).take()),
            (false, true) => Ok(Journal::restore(&self.folder, run).map(|()| None)?),
            (false, false) => Ok(None),
        }
    }

    /// Another rank failed: the first that did not saves the state, so that no step is lost.
    fn rescue(&self, rank: &Rank, run: &Run, error: Error) -> anyhow::Error {
        let failed = match &error {
            Error::Collective(collective::Error::Stopped { failure, .. }) => failure.rank(),
            _ => rank.rank(),
        };
        let survivor = if failed == 0 { 1 } else { 0 };
        if rank.rank() != survivor || run.steps_done() == 0 {
            return error.into();
        }
        let (steps, me) = (run.steps_done(), rank.rank());
        let said = match Journal::rescue(&self.folder, run) {
            Ok(()) => format!("rank {me} saved the state after {steps} steps; the same command with --resume goes on"),
            Err(problem) => format!("rank {me} could not save the state after {steps} steps: {problem}"),
        };
        let _ = writeln!(std::io::stderr(), "{said}");
        error.into()
    }
}
