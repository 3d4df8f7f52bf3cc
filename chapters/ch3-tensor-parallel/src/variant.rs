//! Tensor parallelism, as `cargo compare` runs it.

use crate::boundary::Inputs;
use crate::communication::{Tokens, total};
use crate::core::Core;
use crate::memory::{Step, training};
use crate::{Error, TensorParallel};
use anyhow::Context as _;
use collective::{Rank, launch};
use lab::variant::{Outcome, RankOutcome, Variant, Work};
use std::sync::Arc;
use training::Named;
use training::accumulation::{Loss, forward_backward};
use training::gradients::Gradients;

/// Every layer over `tp` ranks.
#[derive(Clone, Copy, Debug)]
pub struct Tensors {
    /// Ranks.
    pub tp: usize,
    /// Whether training cuts the sequence between the blocks.
    pub sequence: Option<Inputs>,
    /// The chapter's functions.
    pub core: Core,
}

/// What chapter 3 has to compare.
pub fn variants() -> Vec<Box<dyn Variant>> {
    let tensors = [(2, None), (4, None), (2, Some(Inputs::Kept))];
    tensors.map(|(tp, sequence)| Box::new(Tensors { tp, sequence, core: Core::default() }) as Box<dyn Variant>).into()
}

impl Variant for Tensors {
    fn name(&self) -> String {
        let sequence = if self.sequence.is_some() { " sequence-parallel" } else { "" };
        format!("tp={}{sequence}", self.tp)
    }

    fn run(&self, work: &Work) -> anyhow::Result<Outcome> {
        let texts = launch(self.tp, &work.options, |rank| {
            let tensor = self.tensor(rank, work)?;
            let model = work.described.load(&tensor.split())?;
            Ok::<_, Error>(tensor.generate(&model, rank.observer(), &work.prompts, &work.generation)?.ids)
        })?;
        let ranks = launch(self.tp, &work.options, |rank| self.gradient(rank, work))?;
        let (mut results, mut whole) = (Vec::new(), None);
        for (loss, gradients, result) in ranks {
            // Every rank has the same; the first one's is shown.
            whole.get_or_insert((loss, gradients));
            results.push(result);
        }
        let ((loss, gradients), tokens) = whole.zip(texts.into_iter().next()).context("at least one rank")?;
        Ok(Outcome { tokens, loss, gradients, ranks: results, bubble: None })
    }
}

impl Tensors {
    fn tensor(&self, rank: &Rank, work: &Work) -> Result<TensorParallel, Error> {
        let tensor = TensorParallel::new(self.core, &work.described.config, rank.communicator())?;
        Ok(match self.sequence {
            Some(inputs) => tensor.with_sequence_parallelism(inputs),
            None => tensor,
        })
    }

    fn gradient(&self, rank: &Rank, work: &Work) -> Result<(Loss, Named, RankOutcome), Error> {
        let tensor = self.tensor(rank, work)?;
        let model = work.described.load(&tensor.training_split())?;
        let sink = Arc::new(Gradients::expected(&model, 1));
        let mut ctx = tensor.training(rank.observer());
        ctx.sink = Some(sink.clone());
        let begun = rank.clock().now();
        let loss = forward_backward(&model, &ctx, std::slice::from_ref(&work.batch), work.batch.count())?;
        let mut gradients = sink.finish()?;
        tensor.synchronise(&mut gradients)?;
        let formula =
            tensor.predictor(work.options.algorithm, &work.options.topology, model.activations().size_in_bytes());
        let tokens = Tokens { rows: work.batch.rows, seq: work.batch.seq };
        let predicted = [
            formula.setup(),
            formula.training(tokens, self.sequence),
            formula.synchronisation(self.sequence.is_some()),
        ]
        .concat();
        let step = Step { rows: tokens.rows, seq: tokens.seq, dtype: work.described.dtype, optimiser: 0 };
        let result = RankOutcome {
            predicted: training(tensor.layout(), rank.rank(), step, self.sequence),
            memory: rank.ledger().snapshot(),
            predicted_sent: total(&predicted).sent.total(),
            traffic: rank.traffic(),
            seconds: rank.clock().now() - begun,
        };
        // What is shown is the full gradient; gathering it is no part of a step.
        Ok((loss, tensor.gather(&gradients)?, result))
    }
}
