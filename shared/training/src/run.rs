//! One run: a model, its optimiser and its data, step by step.
//!
//! [`Run::step`] is the whole of training on one device. A data-parallel rank uses [`Run::step_with`]: it names its rows of the
//! global batch, and makes its own loss and gradient those of all ranks between the backward and the step. A rank that holds a part of
//! the model uses [`Run::step_by`], with a backward of its own. A chapter that needs more (an optimiser that owns a part) composes the
//! pieces itself, as `step_with` does:
//!
//! ```text
//! Batches::rows ─▶ Batch::split ─▶ forward_backward ─▶ Gradients::finish ─▶ (synchronise) ─▶ global_norm ─▶ Optimiser::step
//! ```

use crate::accumulation::{Loss, forward_backward};
use crate::checkpoint::Snapshot;
use crate::clip;
use crate::data::{Batch, Batches, TokenData};
use crate::diagnosis;
use crate::gradients::Gradients;
use crate::metrics::Record;
use crate::optimiser::Optimiser;
use crate::plan::Plan;
use crate::{Error, Named, Result};
use candle_core::DType;
use decoder::{Context, Decoder};
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// What a step is taken with.
#[derive(Debug)]
pub struct Computed {
    /// Of the global batch.
    pub loss: Loss,
    /// Of its mean loss, for every parameter held here.
    pub gradients: Named,
    /// Of the whole model's gradient, before clipping.
    pub norm: f64,
}

/// A model in training.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    model: Decoder,
    /// Handles of the model's parameters: the optimiser writes through them.
    parameters: Named,
    context: Context,
    batches: Batches,
    optimiser: Optimiser,
    step: u64,
    settings: Value,
}

impl Run {
    /// A run at its first step. `context` says how the model is cut and who hears of its operations; its sink is not used.
    ///
    /// # Errors
    /// A setting has no meaning ([`Plan::check`]), the corpus is shorter than one sequence, or the model cannot be trained in its type.
    pub fn new(plan: Plan, model: Decoder, data: Arc<TokenData>, context: Context) -> Result<Self> {
        plan.check(model.config().context)?;
        let parameters: Named =
            model.parameters().into_iter().map(|(one, _)| (one.name().clone(), one.value().clone())).collect();
        if let Some(parameter) = parameters.values().find(|parameter| parameter.dtype() == DType::F16) {
            // Gradients below 6e-8 would be 0, without a word.
            let expected = "f32, bf16 or f64: f16 gradients vanish unless the loss is scaled, which is not done here";
            return Err(Error::setting("type of the weights", parameter.dtype().as_str(), expected));
        }
        let settings = json!({
            "plan": plan,
            "model": serde_json::from_str::<Value>(&model.config().to_json()?).map_err(unreadable)?,
            "dtype": parameters.values().next().map(|parameter| parameter.dtype().as_str()),
            "corpus": { "tokens": data.len(), "sha256": data.digest() },
        });
        let batches = Batches::new(data, plan.seed, plan.batch, plan.seq)?;
        let optimiser = Optimiser::new(plan.rule.clone())?;
        Ok(Self { plan, model, parameters, context, batches, optimiser, step: 0, settings })
    }

    /// The settings.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The model, with its weights as they are now.
    pub fn model(&self) -> &Decoder {
        &self.model
    }

    /// Its parameters: handles, so the next step changes them.
    pub fn parameters(&self) -> &Named {
        &self.parameters
    }

    /// How the model is cut, and who hears of its operations.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The batches.
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// The optimiser, with what it remembers.
    pub fn optimiser(&self) -> &Optimiser {
        &self.optimiser
    }

    /// Steps done; the next one has this number.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// Whether all steps of the plan are done.
    pub fn is_done(&self) -> bool {
        self.step >= self.plan.steps
    }

    /// What a checkpoint of this run must agree with: plan, model, type of the weights, corpus.
    pub fn settings(&self) -> &Value {
        &self.settings
    }

    /// One step on one device.
    ///
    /// # Errors
    /// As [`Run::step_with`].
    pub fn step(&mut self) -> Result<Record> {
        self.step_with(0..self.plan.batch, |_, _| Ok(()))
    }

    /// One step of a rank that computes `rows` of the global batch. `synchronise` makes its loss and its gradients, which are of its
    /// rows' share of the mean, those of the whole batch: with sums over the ranks.
    ///
    /// # Errors
    /// The loss or a gradient is NaN or infinite (nothing has changed then), the computation failed, or `synchronise` did.
    pub fn step_with<E: From<Error>>(
        &mut self,
        rows: Range<usize>,
        synchronise: impl FnOnce(&mut Loss, &mut Named) -> Result<(), E>,
    ) -> Result<Record, E> {
        self.step_by(|run| {
            let count = run.batches.batch(run.step).count();
            let micro_batches = run.batches.rows(run.step, rows)?.split(run.plan.micro_batches);
            let (mut loss, mut gradients) = run.backward(&micro_batches, count)?;
            synchronise(&mut loss, &mut gradients)?;
            if let Err(error) = clip::check_loss(loss.mean(), run.step) {
                return Err(diagnosis::of_loss(error, &run.model, &run.context, &micro_batches).into());
            }
            let norm = clip::global_norm(&gradients, run.step)?;
            Ok(Computed { loss, gradients, norm })
        })
    }

    /// One step of which `compute` does all but the optimiser's part: for a rank that holds a part of the model, whose loss and norm
    /// are those of all parts together.
    ///
    /// # Errors
    /// The loss is NaN or infinite (nothing has changed then), or `compute` failed.
    pub fn step_by<E: From<Error>>(&mut self, compute: impl FnOnce(&Self) -> Result<Computed, E>) -> Result<Record, E> {
        let start = Instant::now();
        let count = self.batches.batch(self.step).count();
        let Computed { loss, gradients, norm } = compute(self)?;
        clip::check_loss(loss.mean(), self.step)?;
        let scale = self.plan.clip.map_or(Ok(1.0), |most| clip::coefficient(norm, most))?;
        let learning_rate = self.plan.schedule.learning_rate(self.step);
        self.optimiser.step(&self.parameters, &gradients, learning_rate, scale)?;
        let record = Record {
            step: self.step,
            loss: loss.mean(),
            norm,
            learning_rate,
            tokens: (self.step + 1) * count as u64,
            tokens_per_second: count as f64 / start.elapsed().as_secs_f64(),
        };
        self.step += 1;
        Ok(record)
    }

    fn backward(&self, micro_batches: &[Batch], count: usize) -> Result<(Loss, Named)> {
        let sink = Arc::new(Gradients::expected(&self.model, micro_batches.len()));
        let mut context = self.context.clone();
        context.sink = Some(sink.clone());
        let loss = forward_backward(&self.model, &context, micro_batches, count)?;
        Ok((loss, sink.finish()?))
    }

    /// Everything that the rest of the run depends on. The tensors are the run's own: save them before the next step.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            step: self.step,
            seed: self.plan.seed,
            data_position: self.batches.position(self.step),
            weights: self.parameters.clone(),
            optimiser: self.optimiser.state(),
        }
    }

    /// Goes on from a snapshot: the steps that follow are, to the last bit, those of the run that it was taken of.
    ///
    /// # Errors
    /// It is of another model or optimiser, or of another position in the corpus; nothing has changed then.
    pub fn restore(&mut self, snapshot: Snapshot) -> Result<()> {
        let mismatch = |name: &str, found: u64, expected: u64| Error::Mismatch {
            what: "checkpoint's",
            name: name.into(),
            found: found.to_string(),
            expected: expected.to_string(),
        };
        let position = self.batches.position(snapshot.step);
        if snapshot.data_position != position {
            return Err(mismatch("position in the corpus", snapshot.data_position, position));
        }
        if snapshot.seed != self.plan.seed {
            return Err(mismatch("seed", snapshot.seed, self.plan.seed));
        }
        if snapshot.optimiser.steps != snapshot.step {
            return Err(mismatch("optimiser's steps", snapshot.optimiser.steps, snapshot.step));
        }
        let optimiser = Optimiser::restore(self.plan.rule.clone(), snapshot.optimiser.clone())?;
        snapshot.copy_weights_into(&self.parameters)?;
        (self.optimiser, self.step) = (optimiser, snapshot.step);
        Ok(())
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Checkpoint { path: "config.json".into(), problem: format!("the model's own settings: {error}") }
}
