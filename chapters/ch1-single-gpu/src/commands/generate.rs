//! `cargo ch1 generate`: continues prompts, streaming the text of a single one.

use anyhow::Context as _;
use clap::Args;
use decoder::generation::{Generated, Options, generate};
use decoder::split::Split;
use decoder::tokenizer::Tokenizer;
use decoder::{Context, Decoder};
use lab::flags::{DeviceFlags, ModelFlags, SamplingFlags, TraceFlags};
use lab::generated::Prompts;
use lab::loaded::Described;
use lab::program::{Output, in_pool, write_json};
use lab::timeline::Timeline;
use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What `cargo ch1 generate` takes.
#[derive(Args, Debug)]
pub(super) struct Generate {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    trace: TraceFlags,
    /// Compute every token again in each step, in place of keeping keys and values
    #[arg(long)]
    no_kv_cache: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is generated from, checked before the weights are read.
struct Plan {
    prompts: Prompts,
    options: Options,
    threads: NonZeroUsize,
    ctx: Context,
}

impl Generate {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        // Asked before anything is written.
        let threads = lab::startup::threads()?;
        let texts = self.sampling.prompts(&["the dog"])?;
        let options = Options {
            sampling: self.sampling.sampling(),
            max_tokens: self.sampling.sample_len()?,
            cache: !self.no_kv_cache,
            stop_at_eos: true,
        };
        options.sampling.validate()?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let tokenizer = described.tokenizer()?;
        let prompts = Prompts::new(texts, &tokenizer, options.max_tokens, described.config.context)?;
        let mut plan = Plan { prompts, options, threads, ctx: Context::inference() };
        let model = described.load(&Split::whole()).context("loading the model")?;

        let timeline = self.trace.trace.as_deref().map(|path| (path, Arc::new(Timeline::start())));
        if let Some((_, timeline)) = &timeline {
            plan.ctx = plan.ctx.with_observer(timeline.clone());
        }
        let generated = match (self.json, plan.prompts.texts.as_slice()) {
            (false, [prompt]) => plan.stream(&model, &tokenizer, prompt, out)?,
            _ => plan.run(&model, |_| ControlFlow::Continue(()))?,
        };
        if self.json {
            match plan.prompts.documents(&tokenizer, &generated)?.as_slice() {
                [document] => write_json(out, document)?,
                documents => write_json(out, documents)?,
            }
        } else if plan.prompts.texts.len() > 1 {
            plan.prompts.write(out, &tokenizer, &generated)?;
        }
        if let Some((path, timeline)) = timeline {
            timeline.trace("device")?.write(path)?;
        }
        plan.prompts.report(&generated);
        Ok(())
    }
}

impl Plan {
    /// Generates; `on_token` hears of each token of a single prompt.
    fn run(
        &self,
        model: &Decoder,
        mut on_token: impl FnMut(u32) -> ControlFlow<()> + Send,
    ) -> anyhow::Result<Generated> {
        let run = || generate(model, &self.ctx, &self.prompts.ids, &self.options, |_, id| Ok(on_token(id)));
        Ok(in_pool(self.threads, run)??)
    }

    /// Generates, writing prompt and text as they come. A reader that goes away ends the generation.
    fn stream(
        &self,
        model: &Decoder,
        tokenizer: &Tokenizer,
        prompt: &str,
        out: &mut Output,
    ) -> anyhow::Result<Generated> {
        let mut text = tokenizer.stream(true);
        let mut write = |piece: &str| write!(out, "{piece}").and_then(|()| out.flush());
        write(prompt)?;
        let mut outcome: anyhow::Result<()> = Ok(());
        let generated = self.run(model, |id| {
            let piece = text.push(id).map_err(anyhow::Error::from);
            outcome = piece.and_then(|piece| Ok(piece.map_or(Ok(()), |piece| write(&piece))?));
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        write(&text.flush()?)?;
        write("\n")?;
        Ok(generated)
    }
}
