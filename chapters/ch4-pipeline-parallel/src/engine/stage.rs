//! One rank's part of a step.

use super::Pipeline;
use super::deferred::{Deferred, Later};
use super::mail::Mail;
use super::messages::Message;
use super::micro_batch::MicroBatch;
use crate::schedule::{Action, Work};
use crate::simulate::Interval;
use crate::{Error, Result};
use candle_core::Tensor;
use collective::{Clock, Communicator};
use decoder::{Context, Decoder};
use std::collections::HashMap;
use std::sync::Arc;
use training::Named;
use training::accumulation::Loss;
use training::gradients::Gradients;
use training::segments::{Chain, Saved, SavedLoss};

/// A stage on its rank.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// What all ranks do.
    pub pipeline: &'a Pipeline,
    /// The pipeline's ranks, in the order of the stages.
    pub communicator: &'a dyn Communicator,
    /// This rank's clock, which dates the actions.
    pub clock: &'a Clock,
    /// The part of the model that [`Stages::split`](crate::stages::Stages::split) places here.
    pub model: &'a Decoder,
    /// How the rest of the model is cut, and who hears of its operations; its sink is not used.
    pub context: &'a Context,
}

/// What a step leaves on one stage.
#[derive(Debug)]
pub struct Outcome {
    /// Of the whole batch, on the stage with the head; none elsewhere.
    pub loss: Option<Loss>,
    /// Of the batch's mean loss, for the parameters held here. A tied embedding's two parts are not summed yet.
    pub gradients: Named,
    /// When each action ran, in order.
    pub intervals: Vec<Interval>,
    /// Most (micro-batch, chunk) pairs whose graphs were kept.
    pub peak_in_flight: usize,
    /// Most of those and of ones whose weight gradients were put off.
    pub peak_held: usize,
}

/// The graphs of one chunk's segments.
struct Kept {
    segments: Vec<Saved>,
    loss: Option<SavedLoss>,
}

/// What a stage holds while it works.
struct Holding<'a> {
    sink: Arc<Deferred>,
    context: Context,
    mail: Mail<'a>,
    micro_batches: &'a [MicroBatch],
    /// Targets of the global batch.
    count: usize,
    kept: HashMap<(usize, usize), Kept>,
    later: HashMap<(usize, usize), Later>,
    loss: Option<Loss>,
}

impl Stage<'_> {
    /// This stage's number.
    pub fn number(&self) -> usize {
        self.communicator.rank()
    }

    /// Forward and backward of all `micro_batches`, in the schedule's order, of the mean loss over `count` targets: all that count in
    /// the global batch.
    ///
    /// # Errors
    /// Not as many micro-batches as the schedule has, no target that counts, or a failure here or on another stage.
    pub fn step(&self, micro_batches: &[MicroBatch], count: usize) -> Result<Outcome> {
        let schedule = self.pipeline.schedule();
        self.fits(micro_batches, count)?;
        let sink = Arc::new(Deferred::new(Gradients::expected(self.model, micro_batches.len())));
        let mut context = self.context.clone();
        context.sink = Some(sink.clone());
        let mail = Mail::new(self.communicator, self.model.device(), &self.pipeline.messages()[self.number()])?;
        let (kept, later) = (HashMap::new(), HashMap::new());
        let mut holding = Holding { sink, context, mail, micro_batches, count, kept, later, loss: None };

        let mut intervals = Vec::new();
        let (mut peak_in_flight, mut peak_held) = (0, 0);
        for action in &schedule.stages[self.number()] {
            let input = self.input(action, &mut holding)?;
            let start = self.clock.now();
            let output = self.run(action, input, &mut holding)?;
            intervals.push(Interval { action: *action, start, end: self.clock.now() });
            if let Some((message, tensor)) = output {
                holding.mail.give(message, tensor)?;
            }
            peak_in_flight = peak_in_flight.max(holding.kept.len());
            peak_held = peak_held.max(holding.kept.len() + holding.later.len());
        }
        holding.mail.finish()?;
        let (loss, gradients) = (holding.loss, holding.sink.finish()?);
        Ok(Outcome { loss, gradients, intervals, peak_in_flight, peak_held })
    }

    fn fits(&self, micro_batches: &[MicroBatch], count: usize) -> Result<()> {
        let (schedule, found) = (self.pipeline.schedule(), micro_batches.len());
        let wrong =
            |name, found: usize, expected: String| Err(Error::Setting { name, found: found.to_string(), expected });
        if found != schedule.micro_batches {
            return wrong("micro-batches", found, format!("the schedule's {}", schedule.micro_batches));
        }
        if self.communicator.size() != schedule.stages.len() {
            return wrong(
                "ranks",
                self.communicator.size(),
                format!("the schedule's {} stages", schedule.stages.len()),
            );
        }
        if count == 0 {
            return wrong("targets", 0, "at least 1: there is nothing to learn".to_owned());
        }
        Ok(())
    }

    fn position(&self, action: &Action) -> usize {
        self.pipeline.stages().position(self.number(), action.chunk)
    }

    fn is_last(&self, position: usize) -> bool {
        position + 1 == self.pipeline.stages().chunks().len()
    }

    /// What `action` needs from another chunk.
    fn input(&self, action: &Action, holding: &mut Holding<'_>) -> Result<Option<Tensor>> {
        let position = self.position(action);
        let gradient = match action.work {
            Work::Forward if position > 0 => false,
            Work::Backward | Work::InputGradient if !self.is_last(position) => true,
            _ => return Ok(None),
        };
        let message = Message { gradient, micro_batch: action.micro_batch, position };
        holding.mail.take(message).map(Some)
    }

    /// Does `action`; returns what another chunk needs of it.
    fn run(
        &self,
        action: &Action,
        input: Option<Tensor>,
        holding: &mut Holding<'_>,
    ) -> Result<Option<(Message, Tensor)>> {
        let key = (action.micro_batch, action.chunk);
        let position = self.position(action);
        let message = |gradient, position| Message { gradient, micro_batch: action.micro_batch, position };
        let lost = || Error::Schedule(format!("{action} comes before what it needs"));
        match action.work {
            Work::Forward => {
                let output = self.forward(action, input, holding)?;
                return Ok(output.map(|x| (message(false, position + 1), x)));
            }
            Work::WeightGradient => {
                let later = holding.later.remove(&key).ok_or_else(lost)?;
                holding.sink.catch_up(later)?;
                return Ok(None);
            }
            Work::Backward | Work::InputGradient => {}
        }
        let kept = holding.kept.remove(&key).ok_or_else(lost)?;
        let own = kept.loss.as_ref().map_or(0, |loss| loss.count);
        let scale = (self.pipeline.loss_scale)(own, holding.count, holding.micro_batches.len());
        let dx = if action.work == Work::Backward {
            backward(kept, input, scale)?
        } else {
            let (dx, later) = holding.sink.put_off(|| backward(kept, input, scale))?;
            holding.later.insert(key, later);
            dx
        };
        let before = position.checked_sub(1).zip(dx);
        Ok(before.map(|(before, dx)| (message(true, before), dx)))
    }

    /// The chunk's segments, one after the other; their graphs are kept. `None` where the loss is.
    fn forward(&self, action: &Action, input: Option<Tensor>, holding: &mut Holding<'_>) -> Result<Option<Tensor>> {
        let (stages, position) = (self.pipeline.stages(), self.position(action));
        let micro_batch = &holding.micro_batches[action.micro_batch];
        let chain = Chain::new(self.model, &holding.context, &micro_batch.tokens)?;
        let mut segments = Vec::new();
        let mut x = match input {
            Some(x) => x,
            None => {
                let (x, saved) = chain.embed()?;
                segments.push(saved);
                x
            }
        };
        for layer in stages.local_layers(self.number(), action.chunk) {
            let (y, saved) = chain.layer(layer, &x)?;
            segments.push(saved);
            x = y;
        }
        let loss = self.is_last(position).then(|| chain.loss(&x, &micro_batch.targets)).transpose()?;
        if let Some(SavedLoss { sum, count, .. }) = &loss {
            *holding.loss.get_or_insert_default() += Loss { sum: *sum, count: *count };
        }
        let output = loss.is_none().then_some(x);
        holding.kept.insert((action.micro_batch, action.chunk), Kept { segments, loss });
        Ok(output)
    }
}

/// The segments in reverse. `gradient` is that of the chunk's output; the loss, if it is here, makes its own.
fn backward(kept: Kept, gradient: Option<Tensor>, scale: f64) -> Result<Option<Tensor>> {
    let mut gradient = match kept.loss {
        Some(loss) => loss.backward(scale)?,
        None => gradient,
    };
    for saved in kept.segments.into_iter().rev() {
        let Some(dy) = gradient.take() else { break };
        gradient = saved.backward(&dy)?;
    }
    Ok(gradient)
}
