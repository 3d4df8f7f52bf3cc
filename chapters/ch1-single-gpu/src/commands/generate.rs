//! `cargo ch1 generate`: continues prompts, streaming the text of a single one.

use anyhow::Context as _;
use clap::Args;
use decoder::Context;
use decoder::generation::{Generated, Options, generate};
use decoder::split::Split;
use decoder::tokenizer::Tokenizer;
use lab::flags::{DeviceFlags, ModelFlags, SamplingFlags};
use lab::loaded::Described;
use lab::numbers;
use lab::program::{Output, in_pool};
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;

/// What `cargo ch1 generate` takes.
#[derive(Args, Debug)]
pub(super) struct Generate {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    sampling: SamplingFlags,
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

impl Generate {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
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
        let ids = prompts.iter().map(|prompt| tokenizer.encode(prompt, true)).collect::<Result<Vec<_>, _>>()?;
        let model = described.load(&Split::whole()).context("loading the model")?;

        let streamed = !self.json && prompts.len() == 1;
        let mut text = streamed.then(|| tokenizer.stream(true));
        if streamed {
            write!(out, "{}", prompts[0])?;
            out.flush()?;
        }
        let mut written = Ok(());
        let generated = in_pool(lab::startup::threads()?, || {
            generate(&model, &Context::inference(), &ids, &options, |_, id| {
                if let Some(piece) = text.as_mut().map(|text| text.push(id)).transpose()?.flatten() {
                    written = write!(out, "{piece}").and_then(|()| out.flush());
                }
                Ok(if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })
        })??;
        written?;
        if let Some(mut text) = text {
            writeln!(out, "{}", text.flush()?)?;
            out.flush()?;
        } else if self.json {
            let documents = documents(&tokenizer, &ids, &generated)?;
            match documents.as_slice() {
                [document] => serde_json::to_writer_pretty(&mut *out, document)?,
                documents => serde_json::to_writer_pretty(&mut *out, documents)?,
            }
            writeln!(out)?;
        } else {
            for (prompt, ids) in prompts.iter().zip(&generated.ids) {
                writeln!(out, "{prompt}{}", tokenizer.decode(ids, true)?)?;
            }
        }
        report(&ids, &generated);
        Ok(())
    }
}

fn documents(tokenizer: &Tokenizer, prompts: &[Vec<u32>], generated: &Generated) -> anyhow::Result<Vec<Document>> {
    prompts
        .iter()
        .zip(&generated.ids)
        .map(|(prompt, ids)| {
            Ok(Document {
                prompt_ids: prompt.clone(),
                ids: ids.clone(),
                text: tokenizer.decode(ids, true)?,
                prefill_seconds: generated.prefill.as_secs_f64(),
                decode_seconds: generated.decode.as_secs_f64(),
            })
        })
        .collect()
}

/// The figures, on stderr: the text stays clean on stdout.
fn report(prompts: &[Vec<u32>], generated: &Generated) {
    let prompt_tokens: usize = prompts.iter().map(Vec::len).sum();
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
    let _ = writeln!(std::io::stderr(), "{prefill}\n{decode}");
}
