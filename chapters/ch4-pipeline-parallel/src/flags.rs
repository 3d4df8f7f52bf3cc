//! What the chapter's commands take: stages, a schedule, layers; checked as a whole before anything starts.

use crate::core::Core;
use crate::engine::Pipeline;
use crate::schedule::{Kind, Layout, Schedule};
use crate::stages::{LayerCosts, Stages};
use crate::{Error, Result};
use clap::{Args, ValueEnum};
use decoder::Config;
use std::path::PathBuf;
use std::str::FromStr;

/// The number of stages, and which layers they have.
#[derive(Args, Clone, Debug)]
pub struct StageFlags {
    /// Pipeline stages: ranks that hold some of the layers each
    #[arg(long, visible_alias = "pipeline-parallel-size", value_name = "STAGES", default_value_t = 2)]
    pub pp: usize,
    /// Layers of each chunk, in the order of the forward, in place of chunks of equal cost: 3,3,2
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub layers: Vec<usize>,
}

/// The order in which the stages work.
#[derive(Args, Clone, Debug)]
pub struct ScheduleFlags {
    /// naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipe (timed only), or a JSON file with a schedule
    #[arg(long, visible_alias = "kind", value_name = "KIND", default_value = "1f1b")]
    pub schedule: Choice,
    /// Chunks per stage, for the interleaved schedule [default: 2]
    #[arg(long, value_name = "COUNT")]
    pub chunks: Option<usize>,
}

/// A schedule by name, or one that was written by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By name.
    Named(Kind),
    /// In a file.
    File(PathBuf),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(kind) = Kind::from_str(text, true) {
            return Ok(Self::Named(kind));
        }
        let path = PathBuf::from(text);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            return Ok(Self::File(path));
        }
        Err(format!("one of {}, or a file that ends in .json", Kind::ALL.map(Kind::name).join(", ")))
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(kind) => f.write_str(kind.name()),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl ScheduleFlags {
    /// The schedule of `stages` stages and `micro_batches` micro-batches.
    ///
    /// # Errors
    /// Numbers that the schedule cannot be made for; a file that is not valid, or is of other numbers.
    pub fn schedule(&self, core: &Core, stages: usize, micro_batches: usize) -> Result<Schedule> {
        let path = match &self.schedule {
            Choice::Named(kind) => return core.schedule(*kind, stages, micro_batches, kind.chunks(self.chunks)?),
            Choice::File(path) => path,
        };
        let schedule = Schedule::read(path)?;
        let found = (schedule.stages.len(), schedule.micro_batches);
        if found != (stages, micro_batches) {
            let problem = format!(
                "it is for {0} stages and {1} micro-batches, this command for {stages} and {micro_batches}: give --pp {0} and \
                 --micro-batches {1}",
                found.0, found.1
            );
            return Err(Error::File { path: path.clone(), problem });
        }
        let chunks = schedule.layout.chunks();
        if let Some(wanted) = self.chunks.filter(|&wanted| wanted != chunks) {
            let expected = format!("{} has {chunks} per stage", path.display());
            return Err(Error::Setting { name: "chunks", found: wanted.to_string(), expected });
        }
        Ok(schedule)
    }
}

impl StageFlags {
    /// The cut of a model.
    ///
    /// # Errors
    /// The layers cannot be dealt out like this.
    pub fn stages(&self, core: &Core, layout: Layout, config: &Config, seq: usize) -> Result<Stages> {
        if self.layers.is_empty() {
            core.stages(layout, self.pp, &LayerCosts::flops(config, seq.max(1))?)
        } else {
            Stages::by_hand(layout, self.pp, config.layers, &self.layers).map_err(|error| {
                let found = self.layers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                Error::Setting { name: "layers", found, expected: error.to_string() }
            })
        }
    }

    /// Schedule and cut, checked against each other.
    ///
    /// # Errors
    /// Either of them, or both together, make no sense.
    pub fn pipeline(
        &self,
        core: &Core,
        schedule: &ScheduleFlags,
        micro_batches: usize,
        config: &Config,
        seq: usize,
    ) -> Result<Pipeline> {
        let schedule = schedule.schedule(core, self.pp, micro_batches)?;
        let stages = self.stages(core, schedule.layout, config, seq)?;
        core.pipeline(schedule, stages)
    }
}

/// The same error in terms of the flag that is to blame, which makes it bad usage.
pub fn in_terms_of_flags(error: Error) -> anyhow::Error {
    let text = error.to_string();
    let flag = |flag, found: String, expected: String| lab::Error::Flag { flag, found, expected }.into();
    match error {
        Error::Kind { kind, .. } => flag("--schedule", kind.to_owned(), text),
        Error::Schedule(_) => flag("--schedule", "file".to_owned(), text),
        Error::File { ref path, ref problem } => flag("--schedule", path.display().to_string(), problem.clone()),
        Error::Stages { stages, .. } => flag("--pp", stages.to_string(), text),
        Error::Setting { name, found, expected } => {
            let name = match name {
                "micro-batches" => "--micro-batches",
                "chunks" => "--chunks",
                "layers" => "--layers",
                "groups in flight" => "--in-flight",
                "schedule" => "--schedule",
                _ => return Error::Setting { name, found, expected }.into(),
            };
            flag(name, found, expected)
        }
        other => other.into(),
    }
}
