//! `cargo ch3 gradients`: one backward over ranks that share every layer, and the norm of every parameter's full gradient.

use super::sequence::SequenceFlags;
use crate::core::Core;
use crate::{Error, Layout};
use anyhow::Context as _;
use clap::Args;
use collective::{Algorithm, Options, launch};
use lab::flags::{BatchFlags, DeviceFlags, ModelFlags, TensorParallelFlags, WithFlags};
use lab::gradients::{norms, save};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use std::path::PathBuf;

/// What `cargo ch3 gradients` takes.
#[derive(Args, Debug)]
pub(super) struct GradientsCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: TensorParallelFlags,
    #[command(flatten)]
    sequence: SequenceFlags,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    batch: BatchFlags,
    /// How hidden states are summed: direct, ring, tree, hierarchical
    #[arg(long, value_name = "ALGORITHM", default_value_t = Algorithm::Ring)]
    algorithm: Algorithm,
    /// Write the full gradients into this file, as safetensors under the parameters' names
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
        let layout = Layout::new(&described.config, self.parallel.tp)?;
        let batch = self.batch.batch(&super::DEFAULT_TEXTS, &described)?;
        let options = Options { algorithm: self.algorithm, ..Options::default() };
        let parts = launch(layout.tp(), &options, |rank| {
            let tensor = self.sequence.tensor(core, &described.config, rank)?;
            let model = described.load(&tensor.training_split())?;
            let (loss, named) = tensor.gradients(&model, rank.observer(), &batch)?;
            // Every rank has the same; one shows them.
            Ok::<_, Error>((rank.rank() == 0).then_some((loss, named)))
        })?;
        let (loss, named) = parts.into_iter().flatten().next().context("rank 0 shows the gradients")?;
        let document = norms(loss.mean(), loss.count, &named)?;
        if let Some(path) = &self.save {
            save(path, named)?;
        }
        if self.json { write_json(out, &document) } else { Ok(document.write(out)?) }
    }
}
