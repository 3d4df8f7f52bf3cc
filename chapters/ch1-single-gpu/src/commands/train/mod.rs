//! `cargo ch1 train`: a model from random weights, or further from trained ones, on one device.
//!
//! Flags → plan (`flags`) → run (here) → result (`result`). The run itself is `training::run`; what it leaves in its folder is
//! `training::journal`.

mod flags;
mod result;

pub(super) use flags::Train;

use crate::stories;
use anyhow::Context as _;
use decoder::split::Split;
use decoder::tokenizer::Tokenizer;
use decoder::weights::Weights;
use decoder::weights::random::Random;
use decoder::{Context, Decoder};
use flags::in_terms_of_flags;
use lab::loaded::Described;
use lab::numbers;
use lab::program::{Output, in_pool};
use lab::progress::Progress;
use result::Outcome;
use std::io::Write;
use std::sync::Arc;
use training::accumulation::evaluate;
use training::data::{Batches, TokenData};
use training::interrupt::Interrupt;
use training::journal::{End, Journal};
use training::metrics::Record;
use training::plan::Plan;
use training::run::Run;

/// One epoch of stories is at most this long; longer runs see them again.
const MOST_TOKENS: u64 = 1 << 23;

/// Tokens of other stories that the trained model is measured on.
const HELD_OUT_TOKENS: usize = 1 << 14;

impl Train {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let (plan, plot) = (self.plan().map_err(in_terms_of_flags)?, self.plot()?);
        self.may_save()?;
        let described = Described::from_flags(&self.model, &self.device)?;
        plan.check(described.config.context).map_err(in_terms_of_flags)?;
        let outcome = in_pool(lab::startup::threads()?, || self.train(&described, plan))??;
        outcome.draw(&plot)?;
        if let (End::Done, Some(folder)) = (outcome.end, self.save()?) {
            result::save(&outcome.run, &described.source, folder).context("saving the trained model")?;
        }
        if self.json {
            outcome.write_json(out)?;
        } else {
            outcome.write_text(&plot, self.save()?, out)?;
        }
        match outcome.end {
            End::Done => Ok(()),
            End::Interrupted => anyhow::bail!(
                "interrupted after step {} of {}; the same command with --resume goes on from there",
                outcome.run.steps_done(),
                outcome.run.plan().steps
            ),
        }
    }

    fn train(&self, described: &Described, plan: Plan) -> anyhow::Result<Outcome> {
        let interrupt = interrupt();
        let tokenizer = described.tokenizer()?;
        let data = self.data(described, &tokenizer, &plan)?;
        let model = self.first_weights(described).context("loading the model")?;
        let mut run = Run::new(plan, model, Arc::new(data), Context::inference()).map_err(in_terms_of_flags)?;
        let mut journal = self.journal(&mut run)?;
        let (first, progress) = (run.steps_done(), Progress::bar("training", run.plan().steps));
        progress.advance(first);
        let end = journal.train(&mut run, &interrupt, |run| {
            let record = run.step()?;
            progress.say(status(&record));
            progress.advance(1);
            Ok::<_, training::Error>(record)
        })?;
        drop(progress);
        let held_out = (end == End::Done).then(|| self.held_out(described, &tokenizer, &run)).transpose()?.flatten();
        Ok(Outcome { records: Journal::records(&self.out)?, first, end, held_out, run })
    }

    /// The text to train on, as tokens.
    fn data(&self, described: &Described, tokenizer: &Tokenizer, plan: &Plan) -> anyhow::Result<TokenData> {
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

    /// Random weights unless a model is named, or in any case if a seed for them is.
    fn first_weights(&self, described: &Described) -> anyhow::Result<Decoder> {
        let weights: Box<dyn Weights> = match (&self.model.model, self.random) {
            (Some(_), None) => described.source.weights()?,
            (_, seed) => Box::new(Random::new(seed.unwrap_or(self.seed))),
        };
        let Described { config, dtype, device, .. } = described;
        Ok(Decoder::load(config, &*weights, *dtype, device, &Split::whole())?)
    }

    fn journal(&self, run: &mut Run) -> anyhow::Result<Journal> {
        if self.overwrite {
            Journal::remove(&self.out)?;
        }
        if !self.resume {
            return Journal::begin(&self.out, self.checkpoint_every())
                .context("--resume goes on with it, --overwrite deletes it, --out DIR takes another folder");
        }
        let (journal, resumed) = Journal::resume(&self.out, run, self.checkpoint_every())?;
        let mut stderr = std::io::stderr();
        for skipped in &resumed.skipped {
            let _ = writeln!(stderr, "not used: {}: {}", skipped.path.display(), skipped.reason);
        }
        let _ = match &resumed.from {
            Some(path) => writeln!(stderr, "resuming after {} steps, from {}", resumed.step, path.display()),
            None => writeln!(stderr, "no checkpoint in {} yet: starting at step 0", self.out.display()),
        };
        Ok(journal)
    }

    /// The loss on other stories; `None` for a corpus of the user's.
    fn held_out(&self, described: &Described, tokenizer: &Tokenizer, run: &Run) -> anyhow::Result<Option<f64>> {
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
        Ok(Some(evaluate(run.model(), &Context::inference(), all)?.mean()))
    }
}

/// From here on Ctrl-C ends the run with a checkpoint; unless who started the program decides about its signals, as `nohup` does.
fn interrupt() -> Interrupt {
    Interrupt::of_process().unwrap_or_else(|error| {
        let _ =
            writeln!(std::io::stderr(), "{error}; a signal ends the run at once, with the last checkpoint as it is");
        Interrupt::default()
    })
}

/// What the progress bar says.
fn status(record: &Record) -> String {
    format!("loss {:.4}, {}", record.loss, numbers::rate(record.tokens_per_second, "tokens"))
}
