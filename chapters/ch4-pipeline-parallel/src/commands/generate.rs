//! `cargo ch4 generate`: prompts on several stages, some of them in flight at once.

use crate::core::Core;
use crate::flags::{StageFlags, in_terms_of_flags};
use crate::inference::{Server, generate};
use crate::schedule::Layout;
use anyhow::Context as _;
use clap::Args;
use collective::{ClockKind, Options, launch};
use decoder::Context;
use decoder::generation::Options as Generation;
use lab::flags::{DeviceFlags, MemoryFlags, ModelFlags, SamplingFlags, WithFlags};
use lab::generated::Prompts;
use lab::loaded::Described;
use lab::program::{Output, write_json};
use std::io::Write;

/// What `cargo ch4 generate` takes.
#[derive(Args, Debug)]
pub(super) struct Generate {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    stages: StageFlags,
    /// Groups of prompts in flight at once [default: one per stage, as far as there are prompts]
    #[arg(long, value_name = "GROUPS")]
    in_flight: Option<usize>,
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
        let texts = self.sampling.prompts(&["the dog"])?;
        let generation = Generation {
            sampling: self.sampling.sampling(),
            max_tokens: self.sampling.sample_len()?,
            ..Generation::default()
        };
        generation.sampling.validate()?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let stages = self
            .stages
            .stages(&Core::choose(&self.with)?, Layout::Straight, &described.config, 1)
            .map_err(in_terms_of_flags)?;
        let in_flight = self.in_flight.unwrap_or(self.stages.pp.min(texts.len()));
        if !(1..=texts.len()).contains(&in_flight) {
            let expected = format!("from 1 to the {} prompts", texts.len());
            return Err(lab::Error::Flag { flag: "--in-flight", found: in_flight.to_string(), expected }.into());
        }
        let tokenizer = described.tokenizer()?;
        let prompts = Prompts::new(texts, &tokenizer, generation.max_tokens, described.config.context)?;
        let options =
            Options { clock: ClockKind::Wall, device_memory: self.memory.device_memory()?, ..Options::default() };
        let mut served = launch(self.stages.pp, &options, |rank| {
            let split = stages.split(rank.rank());
            let model = described.load(&split)?;
            let context = Context::inference().with_split(split).with_observer(rank.observer());
            let communicator = rank.communicator().as_ref();
            let server = Server { stages: &stages, communicator, model: &model, context: &context };
            generate(&server, &prompts.ids, &generation, in_flight, |_, _| Ok(()))
        })?;
        let generated = served[0].generated.take().context("the first stage hears of every token")?;
        if self.json {
            match prompts.documents(&tokenizer, &generated)?.as_slice() {
                [document] => write_json(out, document)?,
                documents => write_json(out, documents)?,
            }
        } else {
            prompts.write(out, &tokenizer, &generated)?;
        }
        prompts.report(&generated);
        let busy: Vec<String> = served.iter().map(|stage| format!("{}/{}", stage.busy, stage.ticks)).collect();
        let _ = writeln!(std::io::stderr(), "{in_flight} in flight; stages busy in {} ticks", busy.join(", "));
        Ok(())
    }
}
