//! `cargo ch2 score`: how likely the model finds some texts, each on one of the replicas.

use crate::core::Core;
use crate::serve::score_own;
use clap::Args;
use collective::{Options, launch};
use decoder::Context;
use decoder::split::Split;
use lab::flags::{BatchFlags, DataParallelFlags, DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use lab::score::Score;

/// What `cargo ch2 score` takes.
#[derive(Args, Debug)]
pub(super) struct ScoreCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: DataParallelFlags,
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
        let batch = self.batch.batch(&super::DEFAULT_TEXTS, &described)?;
        let dp = self.parallel.dp(batch.sequences().len(), "the batch")?;
        let parts = launch(dp, &Options::default(), |rank| {
            let model = described.load(&Split::whole())?;
            let ctx = Context::inference().with_observer(rank.observer());
            score_own(&core, (rank.size(), rank.rank()), &model, &ctx, &batch)
        })?;
        let scored = Score::of(parts.into_iter().flatten().collect());
        if self.json {
            return write_json(out, &scored);
        }
        Ok(scored.write(out, described.tokenizer().ok().as_ref())?)
    }
}
