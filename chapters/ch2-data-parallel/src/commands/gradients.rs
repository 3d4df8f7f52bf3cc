//! `cargo ch2 gradients`: one backward over all replicas, and the norm of every parameter's gradient.

use crate::Error;
use crate::core::Core;
use crate::serve::gradients;
use clap::Args;
use collective::{Algorithm, Options, launch};
use decoder::Context;
use decoder::split::Split;
use lab::flags::{BatchFlags, DataParallelFlags, DeviceFlags, ModelFlags, WithFlags};
use lab::gradients::{norms, save};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use std::path::PathBuf;

/// What `cargo ch2 gradients` takes.
#[derive(Args, Debug)]
pub(super) struct GradientsCommand {
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
    /// How gradients are summed: direct, ring, tree, hierarchical
    #[arg(long, value_name = "ALGORITHM", default_value_t = Algorithm::Ring)]
    algorithm: Algorithm,
    /// Write the gradients into this file, as safetensors under the parameters' names
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl GradientsCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let batch = self.batch.batch(&super::DEFAULT_TEXTS, &described)?;
        let dp = self.parallel.dp(batch.sequences().len(), "the batch")?;
        let options = Options { algorithm: self.algorithm, ..Options::default() };
        let parts = launch(dp, &options, |rank| {
            let model = described.load(&Split::whole())?;
            let ctx = Context::inference().with_observer(rank.observer());
            let (loss, named) = gradients(&core, rank.communicator().as_ref(), &model, &ctx, &batch)?;
            // Every rank has the same; one shows them.
            Ok::<_, Error>((rank.rank() == 0).then_some((loss, named)))
        })?;
        let Some((loss, named)) = parts.into_iter().flatten().next() else { return Ok(()) };
        let document = norms(loss.mean(), loss.count, &named)?;
        if let Some(path) = &self.save {
            save(path, named)?;
        }
        if self.json { write_json(out, &document) } else { Ok(document.write(out)?) }
    }
}
