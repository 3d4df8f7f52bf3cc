//! `cargo ch4 score`: how likely the model finds some texts, on several stages.

use crate::core::Core;
use crate::flags::{StageFlags, in_terms_of_flags};
use crate::inference::{Server, score};
use crate::schedule::Layout;
use anyhow::Context as _;
use clap::Args;
use collective::{Options, launch};
use decoder::Context;
use lab::flags::{BatchFlags, DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::{Output, write_json};

/// What `cargo ch4 score` takes.
#[derive(Args, Debug)]
pub(super) struct ScoreCommand {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    stages: StageFlags,
    #[command(flatten)]
    batch: BatchFlags,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl ScoreCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let described = Described::from_flags(&self.model, &self.device)?;
        let batch = self.batch.batch(&super::DEFAULT_TEXTS, &described)?;
        let longest = batch.sequences().iter().map(Vec::len).max().unwrap_or(1);
        let stages = self
            .stages
            .stages(&Core::choose(&self.with)?, Layout::Straight, &described.config, longest)
            .map_err(in_terms_of_flags)?;
        let scores = launch(self.stages.pp, &Options::default(), |rank| {
            let split = stages.split(rank.rank());
            let model = described.load(&split)?;
            let context = Context::inference().with_split(split).with_observer(rank.observer());
            let communicator = rank.communicator().as_ref();
            score(&Server { stages: &stages, communicator, model: &model, context: &context }, &batch)
        })?;
        let scored = scores.into_iter().flatten().next().context("the last stage has the scores")?;
        if self.json {
            return write_json(out, &scored);
        }
        Ok(scored.write(out, described.tokenizer().ok().as_ref())?)
    }
}
