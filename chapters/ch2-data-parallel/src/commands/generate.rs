//! `cargo ch2 generate`: replicas that answer the prompts of one batch, each its own.

use crate::core::Core;
use crate::serve::{generate_own, join};
use clap::Args;
use collective::{ClockKind, Options, launch};
use decoder::Context;
use decoder::generation::Options as Generation;
use decoder::split::Split;
use lab::flags::{DataParallelFlags, DeviceFlags, MemoryFlags, ModelFlags, SamplingFlags, WithFlags};
use lab::generated::Prompts;
use lab::loaded::Described;
use lab::program::{Output, write_json};

/// What `cargo ch2 generate` takes.
#[derive(Args, Debug)]
pub(super) struct Generate {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: DataParallelFlags,
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
        let texts = self.sampling.prompts(&["the dog", "the cat", "the girl", "the bird"])?;
        let dp = self.parallel.dp(texts.len(), "the batch of prompts")?;
        let generation = Generation {
            sampling: self.sampling.sampling(),
            max_tokens: self.sampling.sample_len()?,
            ..Generation::default()
        };
        generation.sampling.validate()?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let tokenizer = described.tokenizer()?;
        let prompts = Prompts::new(texts, &tokenizer, generation.max_tokens, described.config.context)?;
        let options =
            Options { clock: ClockKind::Wall, device_memory: self.memory.device_memory()?, ..Options::default() };
        let parts = launch(dp, &options, |rank| {
            let model = described.load(&Split::whole())?;
            let ctx = Context::inference().with_observer(rank.observer());
            let place = (rank.size(), rank.rank());
            generate_own(&core, place, &model, &ctx, &prompts.ids, &generation)
        })?;
        let generated = join(parts);
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
