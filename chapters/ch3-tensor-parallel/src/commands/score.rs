//! `cargo ch3 score`: how likely the model finds some texts, its layers shared by several ranks.

use crate::core::Core;
use crate::{Error, Layout, TensorParallel};
use anyhow::Context as _;
use clap::Args;
use collective::{Options, launch};
use lab::flags::{BatchFlags, DeviceFlags, ModelFlags, TensorParallelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::{Output, write_json};

/// What `cargo ch3 score` takes.
#[derive(Args, Debug)]
pub(super) struct ScoreCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: TensorParallelFlags,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    batch: BatchFlags,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl ScoreCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let layout = Layout::new(&described.config, self.parallel.tp)?;
        let batch = self.batch.batch(&super::DEFAULT_TEXTS, &described)?;
        let ranks = launch(layout.tp(), &Options::default(), |rank| {
            let tensor = TensorParallel::new(core, &described.config, rank.communicator())?;
            let model = described.load(&tensor.split())?;
            let scored = tensor.score(&model, rank.observer(), &batch)?;
            Ok::<_, Error>(scored)
        })?;
        let scored = ranks.into_iter().next().context("at least one rank")?;
        if self.json {
            return write_json(out, &scored);
        }
        Ok(scored.write(out, described.tokenizer().ok().as_ref())?)
    }
}
