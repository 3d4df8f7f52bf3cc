//! `cargo ch1 score`: how likely the model finds a text.

use anyhow::Context as _;
use clap::Args;
use decoder::Context;
use decoder::split::Split;
use lab::flags::{BatchFlags, DeviceFlags, ModelFlags};
use lab::loaded::Described;
use lab::numbers;
use lab::program::{Output, in_pool};
use lab::score::{Score, score};
use lab::table::Table;
use std::io::Write;

/// What `cargo ch1 score` takes.
#[derive(Args, Debug)]
pub(super) struct ScoreCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    batch: BatchFlags,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl ScoreCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let described = Described::from_flags(&self.model, &self.device)?;
        let batch = self.batch.batch(super::DEFAULT_TEXT, &described)?;
        let model = described.load(&Split::whole()).context("loading the model")?;
        let scored = in_pool(lab::startup::threads()?, || score(&model, &Context::inference(), &batch))??;
        if self.json {
            return super::write_json(out, &scored);
        }
        show(out, &scored, &described)
    }
}

/// Token by token what was expected, what came, and how likely that was.
fn show(out: &mut Output, score: &Score, described: &Described) -> anyhow::Result<()> {
    // A folder without a tokenizer can be scored by ids.
    let tokenizer = described.tokenizer().ok();
    let text = |id: u32| match &tokenizer {
        Some(tokenizer) => format!("{id} {:?}", tokenizer.decode(&[id], false).unwrap_or_default()),
        None => id.to_string(),
    };
    for (index, sequence) in score.sequences.iter().enumerate() {
        let mut table = Table::new(["token", "log p", "p", "the most likely one"]);
        for ((&next, logprob), &best) in sequence.ids[1..].iter().zip(&sequence.logprobs).zip(&sequence.argmax) {
            table.push([text(next), format!("{logprob:.4}"), numbers::plain(logprob.exp()), text(best)]);
        }
        writeln!(out, "sequence {index}, after {}\n{table}\n", text(sequence.ids[0]))?;
        let top: Vec<String> = sequence.top.iter().map(|&(id, logit)| format!("{} ({logit:.4})", text(id))).collect();
        writeln!(out, "next, by logit: {}\n", top.join(", "))?;
    }
    writeln!(out, "loss: {:.6} nats per token, mean of {} tokens", score.loss, score.count)?;
    Ok(())
}
