//! `cargo ch1 score`: how likely the model finds a text.

use anyhow::Context as _;
use clap::Args;
use decoder::Context;
use decoder::split::Split;
use lab::flags::{BatchFlags, DeviceFlags, ModelFlags};
use lab::loaded::Described;
use lab::program::{Output, in_pool, write_json};
use lab::score::score;

/// What `cargo ch1 score` takes.
#[derive(Args, Debug)]
pub(super) struct ScoreCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    batch: BatchFlags,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl ScoreCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let described = Described::from_flags(&self.model, &self.device)?;
        let batch = self.batch.batch(&[super::DEFAULT_TEXT], &described)?;
        let model = described.load(&Split::whole()).context("loading the model")?;
        let scored = in_pool(lab::startup::threads()?, || score(&model, &Context::inference(), &batch))??;
        if self.json {
            return write_json(out, &scored);
        }
        // A folder without a tokenizer can be scored by ids.
        Ok(scored.write(out, described.tokenizer().ok().as_ref())?)
    }
}
