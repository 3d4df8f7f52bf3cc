//! One rank of a data-parallel training run: a whole model, its own rows of every batch, and one synchronisation per step.

use crate::core::Core;
use crate::traffic::{self, Volume};
use crate::{Error, Result, replica};
use candle_core::{Device, Tensor};
use collective::volume::Place;
use collective::{Algorithm, Communicator, ReduceOp, Topology};
use lab::flags::InjectedFailure;
use training::interrupt::Interrupt;
use training::journal::{End, Journal};
use training::metrics::Record;
use training::run::Run;

/// What a rank does beside training.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The chapter's functions.
    pub core: Core,
    /// Replicas are compared after every so many steps, and at the end; 0: at the start and at the end only.
    pub check_every: u64,
    /// A failure on purpose.
    pub failure: Option<InjectedFailure>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { core: Core::default(), check_every: 10, failure: None }
    }
}

/// One replica in training.
pub struct Replica<'a> {
    group: &'a dyn Communicator,
    settings: Settings,
    /// To predict the traffic from.
    counted: Counted,
}

/// How often was communicated, by occasion.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Synchronisations.
    steps: u64,
    /// Agreements whether to go on.
    agreements: u64,
    /// Comparisons of all weights.
    checks: u64,
}

impl<'a> Replica<'a> {
    /// Compares the first weights with those of the other ranks.
    ///
    /// # Errors
    /// They are not the same.
    pub fn begin(group: &'a dyn Communicator, run: &Run, settings: Settings) -> Result<Self> {
        let mut replica = Self { group, settings, counted: Counted::default() };
        replica.check(run, "at the start")?;
        Ok(replica)
    }

    /// One step: forward and backward of this rank's rows, the sum over the ranks, and the same step as every other rank.
    ///
    /// # Errors
    /// As [`Run::step_with`]; another rank failed; the replicas have diverged.
    pub fn step(&mut self, run: &mut Run) -> Result<Record> {
        let Settings { core, check_every, failure } = self.settings;
        let (group, step) = (self.group, run.steps_done());
        InjectedFailure::strike(failure, group.rank(), step)?;
        let rows = (core.rows_of_rank)(run.plan().batch, group.size(), group.rank());
        let record = run.step_with(rows, |loss, gradients| (core.synchronise)(group, loss, gradients))?;
        self.counted.steps += 1;
        if run.is_done() || (check_every > 0 && run.steps_done().is_multiple_of(check_every)) {
            self.check(run, &format!("after step {step}"))?;
        }
        Ok(record)
    }

    /// Whether any rank was asked to end: all must end after the same step.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn agree(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.counted.agreements += 1;
        let mine = Tensor::new(&[u32::from(interrupt.requested())], &Device::Cpu)?;
        Ok(self.group.all_reduce(&mine, ReduceOp::Max)?.to_vec1::<u32>()?[0] > 0)
    }

    /// All steps that remain; `on_step` hears of each one. The rank that keeps the run's journal gives it.
    ///
    /// # Errors
    /// As [`Replica::step`]; a file of the journal cannot be written.
    pub fn train(
        &mut self,
        run: &mut Run,
        interrupt: &Interrupt,
        journal: Option<&mut Journal>,
        mut on_step: impl FnMut(&Record),
    ) -> Result<End> {
        let agreed = Interrupt::default();
        let mut step = |run: &mut Run| {
            let record = self.step(run)?;
            if self.agree(interrupt)? {
                agreed.request();
            }
            on_step(&record);
            Ok::<_, Error>(record)
        };
        if let Some(journal) = journal {
            return journal.train(run, &agreed, step);
        }
        while !run.is_done() && !agreed.requested() {
            step(run)?;
        }
        Ok(if run.is_done() { End::Done } else { End::Interrupted })
    }

    /// What this rank must have sent so far, by formula.
    pub fn predicted(&self, run: &Run, algorithm: Algorithm, topology: &Topology) -> Volume {
        let place = Place::of(self.group.rank(), self.group.members(), topology);
        let gradients = traffic::parameter_sizes(run.parameters(), run.model().activations());
        let Counted { steps, agreements, checks } = self.counted;
        traffic::synchronisation(algorithm, &place, &gradients).times(steps)
            + traffic::agreement(algorithm, &place).times(agreements)
            + traffic::check(algorithm, &place, run.parameters().len()).times(checks)
    }

    fn check(&mut self, run: &Run, when: &str) -> Result<()> {
        self.counted.checks += 1;
        replica::check_equal(self.group, run.parameters(), when)
    }
}
