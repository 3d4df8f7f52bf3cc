//! `cargo ch3 generate`: every rank computes its heads and columns for every token; together they write what one device writes.

use crate::core::Core;
use crate::{Error, Layout, TensorParallel};
use anyhow::Context as _;
use clap::Args;
use collective::{ClockKind, Options, launch};
use decoder::generation::Options as Generation;
use lab::flags::{DeviceFlags, MemoryFlags, ModelFlags, SamplingFlags, TensorParallelFlags, WithFlags};
use lab::generated::Prompts;
use lab::loaded::Described;
use lab::program::{Output, write_json};

/// What `cargo ch3 generate` takes.
#[derive(Args, Debug)]
pub(super) struct Generate {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: TensorParallelFlags,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    memory: MemoryFlags,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Generate {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = Core::choose(&self.with)?;
        let texts = self.sampling.prompts(&["the dog"])?;
        let generation = Generation {
            sampling: self.sampling.sampling(),
            max_tokens: self.sampling.sample_len()?,
            ..Generation::default()
        };
        generation.sampling.validate()?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let layout = Layout::new(&described.config, self.parallel.tp)?;
        let tokenizer = described.tokenizer()?;
        let prompts = Prompts::new(texts, &tokenizer, generation.max_tokens, described.config.context)?;
        let options =
            Options { clock: ClockKind::Wall, device_memory: self.memory.device_memory()?, ..Options::default() };
        let ranks = launch(layout.tp(), &options, |rank| {
            let tensor = TensorParallel::new(core, &described.config, rank.communicator())?;
            let model = described.load(&tensor.split())?;
            let generated = tensor.generate(&model, rank.observer(), &prompts.ids, &generation)?;
            Ok::<_, Error>(generated)
        })?;
        let generated = ranks.into_iter().next().context("at least one rank")?;
        if self.json {
            match prompts.documents(&tokenizer, &generated)?.as_slice() {
                [document] => write_json(out, document)?,
                documents => write_json(out, documents)?,
            }
        } else {
            prompts.write(out, &tokenizer, &generated)?;
        }
        prompts.report(&generated);
        Ok(())
    }
}
