//! Training as a program: what every chapter's `train` has in common, whatever its layout.
//!
//! [`TrainFlags`] says what to train on what, and for how long; its methods make the pieces of a [`training::run::Run`]. [`Outcome`]
//! is what is shown of it and kept of it. The run itself is `training::run`; what it leaves in its folder is `training::journal`.

mod flags;
mod result;

pub use flags::{Hyperparameters, TrainFlags, in_terms_of_flags};
pub use result::{Outcome, save, save_companions};

use crate::stories;
use anyhow::{Context as _, anyhow};
use decoder::Decoder;
use decoder::split::Split;
use decoder::tokenizer::Tokenizer;
use decoder::weights::Weights;
use decoder::weights::random::Random;
use lab::loaded::Described;
use lab::numbers;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use training::accumulation::evaluate;
use training::data::{Batches, TokenData};
use training::interrupt::Interrupt;
use training::journal::{End, Journal, Resumed};
use training::metrics::Record;
use training::plan::Plan;
use training::run::Run;

/// One epoch of stories is at most this long; longer runs see them again.
const MOST_TOKENS: u64 = 1 << 23;

/// Tokens of other stories that the trained model is measured on.
const HELD_OUT_TOKENS: usize = 1 << 14;

impl TrainFlags {
    /// The text to train on, as tokens.
    ///
    /// # Errors
    /// The corpus cannot be read, or has ids that the model does not know.
    pub fn data(&self, described: &Described, tokenizer: &Tokenizer, plan: &Plan) -> anyhow::Result<TokenData> {
        let vocab = described.config.vocab;
        let data = match &self.corpus {
            Some(path) => TokenData::from_text_file(path, vocab, |text| tokenizer.encode(text, false))?,
            None => {
                let needed = plan.steps.saturating_mul(plan.batch as u64).saturating_mul(plan.seq as u64);
                let tokens = needed.min(MOST_TOKENS) as usize + 1;
                let ends = described.config.eos.first().copied();
                TokenData::new(stories::tokens(tokenizer, ends, self.seed, 0, tokens)?, vocab)?
            }
        };
        Ok(data)
    }

    /// Where the first weights come from: random ones unless a model is named, or in any case if a seed for them is.
    ///
    /// # Errors
    /// The model's weights cannot be found.
    pub fn weights(&self, described: &Described) -> decoder::Result<Box<dyn Weights>> {
        match (&self.model.model, self.random) {
            (Some(_), None) => described.source.weights(),
            (_, seed) => Ok(Box::new(Random::new(seed.unwrap_or(self.seed)))),
        }
    }

    /// The whole model at its first step.
    ///
    /// # Errors
    /// A weight is missing or has another shape.
    pub fn first_weights(&self, described: &Described) -> anyhow::Result<Decoder> {
        self.first_weights_of(described, &Split::whole())
    }

    /// The part of the model that `split` places here, at its first step.
    ///
    /// # Errors
    /// As [`TrainFlags::first_weights`].
    pub fn first_weights_of(&self, described: &Described, split: &Split) -> anyhow::Result<Decoder> {
        let Described { config, dtype, device, .. } = described;
        Ok(Decoder::load(config, &*self.weights(described)?, *dtype, device, split)?)
    }

    /// The journal in `folder`: a new one, or that of the run to go on with, whose state `run` then has.
    ///
    /// # Errors
    /// As [`TrainFlags::begin`] and [`TrainFlags::go_on`].
    pub fn journal(&self, folder: &Path, run: &mut Run) -> anyhow::Result<Journal> {
        if self.resume { self.go_on(folder, run) } else { self.begin(folder) }
    }

    /// Whether to go on with the run that is there.
    pub fn resumes(&self) -> bool {
        self.resume
    }

    /// A new journal in `folder`.
    ///
    /// # Errors
    /// There is a run already, and it was not said that it may be overwritten.
    pub fn begin(&self, folder: &Path) -> anyhow::Result<Journal> {
        if self.overwrite {
            Journal::remove(folder)?;
        }
        Journal::begin(folder, self.checkpoint_every()).map_err(|error| match error {
            training::Error::Checkpoint { .. } => {
                anyhow!("{error} (--resume, --overwrite, --out DIR)")
            }
            other => other.into(),
        })
    }

    /// The journal of the run in `folder`, whose state `run` then has. Says where it goes on, on stderr.
    ///
    /// # Errors
    /// The run there is of other settings, or no checkpoint is usable.
    pub fn go_on(&self, folder: &Path, run: &mut Run) -> anyhow::Result<Journal> {
        let (journal, resumed) = Journal::resume(folder, run, self.checkpoint_every())?;
        self.say_resumed(folder, &resumed);
        Ok(journal)
    }

    /// Says on stderr where a run goes on.
    pub fn say_resumed(&self, folder: &Path, resumed: &Resumed) {
        let mut stderr = std::io::stderr();
        for skipped in &resumed.skipped {
            let _ = writeln!(stderr, "not used: {}: {}", skipped.path.display(), skipped.reason);
        }
        let _ = match &resumed.from {
            Some(path) => writeln!(stderr, "resuming after {} steps, from {}", resumed.step, path.display()),
            None => writeln!(stderr, "no checkpoint in {} yet: starting at step 0", folder.display()),
        };
    }

    /// The loss on other stories; `None` for a corpus of the user's. Ranks that hold parts of the model must all ask for it.
    ///
    /// # Errors
    /// The forward failed.
    pub fn held_out(&self, described: &Described, tokenizer: &Tokenizer, run: &Run) -> anyhow::Result<Option<f64>> {
        if self.corpus.is_some() {
            return Ok(None);
        }
        let (rows, seq) = (run.plan().batch, run.plan().seq);
        let ends = described.config.eos.first().copied();
        let tokens = HELD_OUT_TOKENS.max(rows * seq + 1);
        let ids = stories::tokens(tokenizer, ends, self.seed, stories::FIRST_HELD_OUT, tokens)?;
        let data = TokenData::new(ids, described.config.vocab)?;
        let batches = Batches::new(Arc::new(data), self.seed, rows, seq)?;
        let all = (0..batches.windows() / rows as u64).map(|step| batches.batch(step));
        Ok(Some(evaluate(run.model(), run.context(), all)?.mean()))
    }

    /// Writes the trained model where `--save` says, if the run came to its end.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save_model(&self, outcome: &Outcome, described: &Described) -> anyhow::Result<()> {
        match (outcome.end, self.save()?) {
            (End::Done, Some(folder)) => {
                save(&outcome.run, &described.source, folder).context("saving the trained model")
            }
            _ => Ok(()),
        }
    }
}

impl Outcome {
    /// An error that says how to go on, if the run was interrupted.
    ///
    /// # Errors
    /// It was.
    pub fn ended(&self) -> anyhow::Result<()> {
        match self.end {
            End::Done => Ok(()),
            End::Interrupted => anyhow::bail!(
                "interrupted after step {} of {}; the same command with --resume goes on from there",
                self.run.steps_done(),
                self.run.plan().steps
            ),
        }
    }
}

/// From here on Ctrl-C ends the run with a checkpoint; unless who started the program decides about its signals, as `nohup` does.
pub fn interrupt() -> Interrupt {
    Interrupt::of_process().unwrap_or_else(|error| {
        let _ =
            writeln!(std::io::stderr(), "{error}; a signal ends the run at once, with the last checkpoint as it is");
        Interrupt::default()
    })
}

/// What the progress bar says.
pub fn status(record: &Record) -> String {
    format!("loss {:.4}, {}", record.loss, numbers::rate(record.tokens_per_second, "tokens"))
}
