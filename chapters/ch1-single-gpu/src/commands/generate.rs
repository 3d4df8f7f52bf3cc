//! `cargo ch1 generate`: continues prompts, streaming the text of a single one.

use anyhow::Context as _;
use clap::Args;
use decoder::generation::{Generated, Options, generate};
use decoder::split::Split;
use decoder::tokenizer::Tokenizer;
use decoder::{Context, Decoder, Error};
use lab::flags::{DeviceFlags, ModelFlags, SamplingFlags, TraceFlags};
use lab::loaded::Described;
use lab::numbers;
use lab::program::{Output, in_pool};
use lab::timeline::Timeline;
use serde::Serialize;
use std::io::{self, Write};
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

/// The document of one prompt; a batch is a list of them.
#[derive(Debug, Serialize)]
struct Document {
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    text: String,
    prefill_seconds: f64,
    decode_seconds: f64,
}

/// What is generated from, checked before the weights are read.
struct Plan {
    prompts: Vec<String>,
    ids: Vec<Vec<u32>>,
    options: Options,
    threads: NonZeroUsize,
    ctx: Context,
}

impl Generate {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        // Asked before anything is written.
        let threads = lab::startup::threads()?;
        let prompts = self.sampling.prompts("the dog")?;
        let options = Options {
            sampling: self.sampling.sampling(),
            max_tokens: self.sampling.sample_len()?,
            cache: !self.no_kv_cache,
            stop_at_eos: true,
        };
        options.sampling.validate()?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let tokenizer = described.tokenizer()?;
        let mut plan = Plan::new(prompts, options, threads, &tokenizer, described.config.context)?;
        let model = described.load(&Split::whole()).context("loading the model")?;

        let timeline = self.trace.trace.as_deref().map(|path| (path, Arc::new(Timeline::start())));
        if let Some((_, timeline)) = &timeline {
            plan.ctx = plan.ctx.with_observer(timeline.clone());
        }
        let generated = match (self.json, plan.prompts.as_slice()) {
            (false, [prompt]) => plan.stream(&model, &tokenizer, prompt, out)?,
            _ => plan.run(&model, |_| ControlFlow::Continue(()))?,
        };
        if self.json {
            match plan.documents(&tokenizer, &generated)?.as_slice() {
                [document] => super::write_json(out, document)?,
                documents => super::write_json(out, documents)?,
            }
        } else if plan.prompts.len() > 1 {
            for (prompt, ids) in plan.prompts.iter().zip(&generated.ids) {
                writeln!(out, "{prompt}{}", tokenizer.decode(ids, true)?)?;
            }
        }
        if let Some((path, timeline)) = timeline {
            timeline.trace("device")?.write(path)?;
        }
        plan.report(&generated);
        Ok(())
    }
}

impl Plan {
    fn new(
        prompts: Vec<String>,
        options: Options,
        threads: NonZeroUsize,
        tokenizer: &Tokenizer,
        context: usize,
    ) -> anyhow::Result<Self> {
        let ids = prompts.iter().map(|prompt| tokenizer.encode(prompt, true)).collect::<Result<Vec<_>, _>>()?;
        let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
        let needed = longest.saturating_add(options.max_tokens);
        if needed > context {
            return Err(Error::ContextLength { needed, available: context }.into());
        }
        Ok(Self { prompts, ids, options, threads, ctx: Context::inference() })
    }

    /// Generates; `on_token` hears of each token of a single prompt.
    fn run(
        &self,
        model: &Decoder,
        mut on_token: impl FnMut(u32) -> ControlFlow<()> + Send,
    ) -> anyhow::Result<Generated> {
        let run = || generate(model, &self.ctx, &self.ids, &self.options, |_, id| Ok(on_token(id)));
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

    fn documents(&self, tokenizer: &Tokenizer, generated: &Generated) -> anyhow::Result<Vec<Document>> {
        let document = |(prompt, ids): (&Vec<u32>, &Vec<u32>)| {
            Ok(Document {
                prompt_ids: prompt.clone(),
                ids: ids.clone(),
                text: tokenizer.decode(ids, true)?,
                prefill_seconds: generated.prefill.as_secs_f64(),
                decode_seconds: generated.decode.as_secs_f64(),
            })
        };
        self.ids.iter().zip(&generated.ids).map(document).collect()
    }

    /// The figures, on stderr: the text stays clean on stdout.
    fn report(&self, generated: &Generated) {
        let prompt_tokens: usize = self.ids.iter().map(Vec::len).sum();
        let seconds = generated.prefill.as_secs_f64();
        let prefill = format!(
            "prefill: {prompt_tokens} tokens, first token after {} ({})",
            numbers::seconds(seconds),
            numbers::rate(prompt_tokens as f64 / seconds, "tokens")
        );
        let decode = match generated.decode_rate() {
            Some(rate) => format!("decode: {} tokens, {}", generated.decoded(), numbers::rate(rate, "tokens")),
            None => "decode: no step".into(),
        };
        // Figures are not worth failing for.
        let _ = writeln!(io::stderr(), "{prefill}\n{decode}");
    }
}
