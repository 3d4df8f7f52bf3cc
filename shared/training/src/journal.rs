//! What a run leaves in its folder, and how another process goes on with it.
//!
//! ```text
//! out/…/
//!   checkpoints/      the whole state, the newest and the one before (see `checkpoint`)
//!   metrics.jsonl     a line per step (see `metrics`)
//! ```

use crate::checkpoint::{self, Latest, Skipped, Snapshot};
use crate::interrupt::Interrupt;
use crate::metrics::{Metrics, Record};
use crate::run::Run;
use crate::{Error, Result};
use serde_json::Value;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

const CHECKPOINTS: &str = "checkpoints";
const METRICS: &str = "metrics.jsonl";

/// Writes a run's checkpoints and metrics.
#[derive(Debug)]
pub struct Journal {
    checkpoints: PathBuf,
    metrics: Metrics,
    every: Option<NonZeroU64>,
    /// Step of the newest checkpoint.
    saved: Option<u64>,
}

/// Where a resumed run goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The checkpoint; `None` if the run had ended before its first.
    pub from: Option<PathBuf>,
    /// Steps done there.
    pub step: u64,
    /// Newer checkpoints that are not usable, and why.
    pub skipped: Vec<Skipped>,
}

/// How [`Journal::train`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All steps of the plan are done.
    Done,
    /// The end was asked for; the state is saved.
    Interrupted,
}

impl Journal {
    /// For a new run, in a folder that holds none yet; with a checkpoint every `every` steps, and always at the end.
    ///
    /// # Errors
    /// The folder holds a run already, or one that is going on, or cannot be written.
    pub fn begin(folder: &Path, every: Option<NonZeroU64>) -> Result<Self> {
        let checkpoints = folder.join(CHECKPOINTS);
        if checkpoint::exists(&checkpoints)? {
            let problem = "there is a run already; resume it, overwrite it, or choose another folder".into();
            return Err(Error::Checkpoint { path: folder.to_owned(), problem });
        }
        std::fs::create_dir_all(&checkpoints).map_err(Error::file("create", &checkpoints))?;
        Ok(Self { checkpoints, metrics: Metrics::create(&folder.join(METRICS))?, every, saved: None })
    }

    /// Goes on with the run in `folder`, from its newest usable checkpoint; from the beginning if it never came to one.
    ///
    /// # Errors
    /// The newest usable checkpoint is of a run with other settings, or none of several is usable.
    pub fn resume(folder: &Path, run: &mut Run, every: Option<NonZeroU64>) -> Result<(Self, Resumed)> {
        let mut resumed = Resumed { from: None, step: run.steps_done(), skipped: Vec::new() };
        if let Some(latest) = Self::newest(folder, run)? {
            resumed = Resumed { from: Some(latest.path), step: latest.snapshot.step, skipped: latest.skipped };
            run.restore(latest.snapshot)?;
        }
        Ok((Self::resume_after(folder, &resumed, every)?, resumed))
    }

    /// The newest usable checkpoint in `folder` of a run with the settings of `run`: whole, where `run` may have a part of the model.
    ///
    /// # Errors
    /// As [`checkpoint::latest`].
    pub fn newest(folder: &Path, run: &Run) -> Result<Option<Latest>> {
        checkpoint::latest(&folder.join(CHECKPOINTS), run.settings(), run.model().device())
    }

    /// The journal in `folder` of a run that was brought to the state in `resumed`.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn resume_after(folder: &Path, resumed: &Resumed, every: Option<NonZeroU64>) -> Result<Self> {
        let checkpoints = folder.join(CHECKPOINTS);
        std::fs::create_dir_all(&checkpoints).map_err(Error::file("create", &checkpoints))?;
        let metrics = Metrics::resume(&folder.join(METRICS), resumed.step)?;
        let saved = resumed.from.is_some().then_some(resumed.step);
        Ok(Self { checkpoints, metrics, every, saved })
    }

    /// Deletes the run in `folder`: its checkpoints and metrics, nothing else.
    ///
    /// # Errors
    /// A file cannot be deleted, or the run is going on.
    pub fn remove(folder: &Path) -> Result<()> {
        Metrics::remove(&folder.join(METRICS))?;
        checkpoint::remove_all(&folder.join(CHECKPOINTS))
    }

    /// All records of the run in `folder`, those before it was resumed included.
    ///
    /// # Errors
    /// As [`crate::metrics::read`].
    pub fn records(folder: &Path) -> Result<Vec<Record>> {
        crate::metrics::read(&folder.join(METRICS))
    }

    /// Takes the steps that remain, each with `step` (which calls [`Run::step`] and may show the record), writes their records and the
    /// checkpoints. An interrupt ends it between two steps, with a checkpoint.
    ///
    /// # Errors
    /// A step failed, or a file cannot be written. The checkpoints that are there stay.
    pub fn train<E: From<Error>>(
        &mut self,
        run: &mut Run,
        interrupt: &Interrupt,
        mut step: impl FnMut(&mut Run) -> Result<Record, E>,
    ) -> Result<End, E> {
        while !run.is_done() && !interrupt.requested() {
            let record = step(run)?;
            self.write(&record)?;
            if self.is_due(run.steps_done()) {
                self.save(&run.snapshot(), run.settings())?;
            }
        }
        if self.lacks(run.steps_done()) {
            self.save(&run.snapshot(), run.settings())?;
        }
        Ok(if run.is_done() { End::Done } else { End::Interrupted })
    }

    /// Saves the state of a run into `folder` on behalf of its journal, whose owner failed: a replica has the same state.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    pub fn rescue(folder: &Path, run: &Run) -> Result<()> {
        checkpoint::save(&folder.join(CHECKPOINTS), &run.snapshot(), run.settings())?;
        Ok(())
    }

    /// Brings `run` to the state that [`Journal::resume`] would, without becoming its journal: for replicas.
    ///
    /// # Errors
    /// As [`Journal::resume`].
    pub fn restore(folder: &Path, run: &mut Run) -> Result<()> {
        match checkpoint::latest(&folder.join(CHECKPOINTS), run.settings(), run.model().device())? {
            Some(latest) => run.restore(latest.snapshot),
            None => Ok(()),
        }
    }

    /// Writes the record of a step.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        self.metrics.write(record)
    }

    /// Whether a checkpoint is to be made after `steps` steps.
    pub fn is_due(&self, steps: u64) -> bool {
        self.every.is_some_and(|every| steps.is_multiple_of(every.get()))
    }

    /// Whether there is no checkpoint of the state after `steps` steps yet.
    pub fn lacks(&self, steps: u64) -> bool {
        self.saved != Some(steps)
    }

    /// Makes a checkpoint of a whole run.
    ///
    /// # Errors
    /// As [`checkpoint::save`].
    pub fn save(&mut self, snapshot: &Snapshot, settings: &Value) -> Result<()> {
        checkpoint::save(&self.checkpoints, snapshot, settings)?;
        self.saved = Some(snapshot.step);
        Ok(())
    }
}
