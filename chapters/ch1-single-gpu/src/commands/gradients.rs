//! `cargo ch1 gradients`: one backward, and the norm of every parameter's gradient.

use anyhow::Context as _;
use clap::Args;
use decoder::Context;
use decoder::split::Split;
use lab::flags::{BatchFlags, DeviceFlags, ModelFlags};
use lab::gradients::{gradients, norms, save};
use lab::loaded::Described;
use lab::program::{Output, in_pool, write_json};
use std::path::PathBuf;

/// What `cargo ch1 gradients` takes.
#[derive(Args, Debug)]
pub(super) struct GradientsCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    batch: BatchFlags,
    /// Write the gradients into this file, as safetensors under the parameters' names
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl GradientsCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let described = Described::from_flags(&self.model, &self.device)?;
        let batch = self.batch.batch(&[super::DEFAULT_TEXT], &described)?;
        let model = described.load(&Split::whole()).context("loading the model")?;
        let (loss, named) = in_pool(lab::startup::threads()?, || gradients(&model, &Context::inference(), &batch))??;
        let document = norms(loss, batch.targets(), &named)?;
        if let Some(path) = &self.save {
            save(path, named)?;
        }
        if self.json { write_json(out, &document) } else { Ok(document.write(out)?) }
    }
}
