//! What is shown of a run, and what is kept of it: the loss curve, the trained model.

use decoder::source::Source;
use decoder::weights::save::save_folder;
use lab::program::Output;
use lab::{numbers, plot};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use training::journal::End;
use training::metrics::Record;
use training::run::Run;

/// Files beside the weights that make a folder usable without the one that the training began from.
const COMPANIONS: [&str; 3] = ["tokenizer.json", "tokenizer_config.json", "generation_config.json"];

/// A run that has ended.
pub struct Outcome {
    /// The run, with its model.
    pub run: Run,
    /// Whether it came to its end.
    pub end: End,
    /// The step that this process began with.
    pub first: u64,
    /// Every step from 0 on, those of earlier processes included.
    pub records: Vec<Record>,
    /// Mean loss on text that was not trained on.
    pub held_out: Option<f64>,
}

impl Outcome {
    /// Tokens per second of all steps of this process together.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let records = self.records.iter().filter(|record| record.step >= self.first);
        let tokens = (self.run.plan().batch * self.run.plan().seq) as f64;
        let (steps, seconds) = records
            .fold((0.0, 0.0), |(steps, seconds), record| (steps + 1.0, seconds + tokens / record.tokens_per_second));
        (steps > 0.0).then(|| steps * tokens / seconds)
    }

    /// Draws the loss curve; a run that was interrupted before its first step has none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw(&self, path: &Path) -> lab::Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let losses = self.records.iter().map(|record| (record.step, record.loss));
        plot::loss_curve("Training loss", losses, self.held_out).write(path)
    }

    /// What is shown of the run, and what other software can compare with.
    pub fn document(&self) -> Value {
        json!({
            "settings": self.run.settings(),
            "steps": self.run.steps_done(),
            "resumed_at": self.first,
            "losses": self.records.iter().map(|record| record.loss).collect::<Vec<_>>(),
            "norms": self.records.iter().map(|record| record.norm).collect::<Vec<_>>(),
            "tokens": self.records.last().map(|record| record.tokens),
            "tokens_per_second": self.tokens_per_second(),
            "held_out_loss": self.held_out,
        })
    }

    /// In one or two lines.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn write(&self, plot: &Path, saved: Option<&Path>, out: &mut Output) -> anyhow::Result<()> {
        let (Some(first), Some(last)) = (self.records.first(), self.records.last()) else {
            return Ok(writeln!(out, "no step was taken")?);
        };
        let tokens = numbers::grouped(last.tokens);
        write!(out, "{} steps, {tokens} tokens: loss {:.4} → {:.4} nats", last.step + 1, first.loss, last.loss)?;
        if let Some(loss) = self.held_out {
            write!(out, ", {loss:.4} on stories it has not seen")?;
        }
        if let Some(rate) = self.tokens_per_second() {
            write!(out, "; {}", numbers::rate(rate, "tokens"))?;
        }
        writeln!(out, "\nloss curve: {}", plot.display())?;
        if let (End::Done, Some(folder)) = (self.end, saved) {
            writeln!(out, "model: {}", folder.display())?;
        }
        Ok(())
    }
}

/// Writes the model as a folder in Hugging Face layout, with the tokenizer that it was trained with.
///
/// # Errors
/// A file cannot be written.
pub fn save(run: &Run, source: &Source, folder: &Path) -> anyhow::Result<()> {
    let mut config = run.model().config().clone();
    config.dtype = run.parameters().values().next().map(|parameter| parameter.dtype());
    let weights = run.parameters().iter().map(|(name, value)| (name.to_string(), value.clone()));
    save_folder(folder, &config.to_json()?, weights)?;
    save_companions(source, folder)
}

/// Copies what belongs to a model beside its weights, such as its tokenizer, from where the training began.
///
/// # Errors
/// A file cannot be written.
pub fn save_companions(source: &Source, folder: &Path) -> anyhow::Result<()> {
    let Source::Folder(from) = source else { return Ok(()) };
    let canonical = |path: &Path| path.canonicalize().map_err(decoder::Error::file("find", path));
    if canonical(from)? == canonical(folder)? {
        return Ok(());
    }
    for name in COMPANIONS {
        let (from, to) = (from.join(name), folder.join(name));
        if from.is_file() {
            std::fs::copy(&from, &to).map_err(decoder::Error::file("copy", &from))?;
        }
    }
    Ok(())
}
