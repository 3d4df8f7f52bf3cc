//! `cargo ch4 gradients`: one backward over all stages, and the norm of every parameter's gradient.

use crate::core::Core;
use crate::engine::MicroBatch;
use crate::flags::{ScheduleFlags, StageFlags, in_terms_of_flags};
use crate::step;
use clap::Args;
use collective::Options;
use lab::flags::{BatchFlags, DeviceFlags, ModelFlags, WithFlags};
use lab::gradients::{norms, save};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use std::path::PathBuf;

/// What `cargo ch4 gradients` takes.
#[derive(Args, Debug)]
pub(super) struct GradientsCommand {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    stages: StageFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
    /// Micro-batches that the batch is cut into [default: one per sequence]
    #[arg(long, value_name = "COUNT")]
    micro_batches: Option<usize>,
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
        let batch = self.batch.batch(&super::DEFAULT_TEXTS, &described)?.predicting();
        let micro_batches = self.micro_batches.unwrap_or(batch.sequences().len());
        let longest = batch.sequences().iter().map(Vec::len).max().unwrap_or(1);
        let parts = MicroBatch::split_sequences(&batch, micro_batches, &described.device).map_err(in_terms_of_flags)?;
        let pipeline = self
            .stages
            .pipeline(&Core::choose(&self.with)?, &self.schedule, micro_batches, &described.config, longest)
            .map_err(in_terms_of_flags)?;
        let step = step::run(&described, &pipeline, &parts, batch.targets(), &Options::default())?;
        let document = norms(step.loss.mean(), step.loss.count, &step.gradients)?;
        if let Some(path) = &self.save {
            save(path, step.gradients)?;
        }
        if self.json { write_json(out, &document) } else { Ok(document.write(out)?) }
    }
}
