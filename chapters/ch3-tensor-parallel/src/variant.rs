//! Tensor and context parallelism, as `cargo compare` runs them.

use crate::boundary::Inputs;
use crate::communication::{Tokens, ring, ring_backward, total};
use crate::context::ContextParallel;
use crate::context::decode::SpreadKeys;
use crate::core::Core;
use crate::memory::{Step, training};
use crate::{Error, TensorParallel};
use anyhow::Context as _;
use ch2_data_parallel::synchronise::synchronise;
use ch2_data_parallel::traffic::{gradient_sizes, synchronisation};
use collective::volume::Place;
use collective::{Rank, launch};
use decoder::Context;
use decoder::generation::generate;
use decoder::split::Split;
use lab::variant::{Outcome, RankOutcome, Variant, Work, whole_model};
use std::ops::ControlFlow;
use std::sync::Arc;
use training::Named;
use training::accumulation::{Loss, forward_backward};
use training::data::{Batch, IGNORED};
use training::gradients::Gradients;
use training::segments::forward_backward as forward_backward_of;

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
    let core = Core::default();
    let tensors = [(2, None), (4, None), (2, Some(Inputs::Kept))];
    let tensors = tensors.map(|(tp, sequence)| Box::new(Tensors { tp, sequence, core }) as Box<dyn Variant>);
    tensors.into_iter().chain([Box::new(Chunks { cp: 2, core }) as Box<dyn Variant>]).collect()
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

/// The tokens of every sequence over `cp` ranks.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// Ranks.
    pub cp: usize,
    /// The chapter's functions.
    pub core: Core,
}

impl Variant for Chunks {
    fn name(&self) -> String {
        format!("cp={}", self.cp)
    }

    fn check(&self, work: &Work) -> lab::Result<()> {
        let (found, least) = (work.batch.seq, 2 * self.cp);
        if found >= least {
            return Ok(());
        }
        let expected =
            format!("cp={} cuts it into {least} chunks: at least {least}, or other variants, with --only", self.cp);
        Err(lab::Error::Flag { flag: "--seq", found: found.to_string(), expected })
    }

    fn run(&self, work: &Work) -> anyhow::Result<Outcome> {
        let texts = launch(self.cp, &work.options, |rank| {
            let model = work.described.load(&Split::whole())?;
            let ctx = Context::inference().with_split(SpreadKeys::split(rank.communicator(), Split::whole()));
            let go_on = |_, _| Ok(ControlFlow::Continue(()));
            Ok::<_, Error>(generate(&model, &ctx, &work.prompts, &work.generation, go_on)?.ids)
        })?;
        let ranks = launch(self.cp, &work.options, |rank| self.gradient(rank, work))?;
        let (mut results, mut whole) = (Vec::new(), None);
        for (loss, gradients, result) in ranks {
            whole.get_or_insert((loss, gradients));
            results.push(result);
        }
        let ((loss, gradients), tokens) = whole.zip(texts.into_iter().next()).context("at least one rank")?;
        Ok(Outcome { tokens, loss, gradients, ranks: results, bubble: None })
    }
}

impl Chunks {
    fn gradient(&self, rank: &Rank, work: &Work) -> anyhow::Result<(Loss, Named, RankOutcome)> {
        let group = rank.communicator();
        let Batch { inputs, targets, rows, seq } = &work.batch;
        let parallel = ContextParallel::new(self.core, group, &vec![*seq; *rows])?;
        let model = work.described.load(&Split::whole())?;
        let by_row = |all: &[u32]| all.chunks(*seq).map(<[u32]>::to_vec).collect::<Vec<_>>();
        let tokens = parallel.tokens(&by_row(inputs), model.device())?;
        let own = parallel.own(&by_row(targets), IGNORED);
        let sink = Arc::new(Gradients::expected(&model, 1));
        let mut ctx = Context::training(sink.clone()).with_observer(rank.observer());
        ctx.split = parallel.split(Split::whole());
        let begun = rank.clock().now();
        let scale = 1. / work.batch.count() as f64;
        let (sum, count) = forward_backward_of(&model, &ctx, &tokens, &own, scale)?;
        let (mut loss, mut gradients) = (Loss { sum, count }, sink.finish()?);
        let sizes = gradient_sizes(&gradients);
        // The replicas of chapter 2, each with other tokens in place of other sequences.
        synchronise(group.as_ref(), &mut loss, &mut gradients)?;
        let place = Place::of(group.rank(), group.members(), &work.options.topology);
        let seqs: Vec<_> = (0..group.size()).map(|rank| parallel.seq(rank)).collect();
        let element = model.activations().size_in_bytes();
        let config = &work.described.config;
        let predicted = ring(&place, config, *rows, &seqs, element)
            + ring_backward(&place, config, *rows, &seqs, element)
            + synchronisation(work.options.algorithm, &place, &sizes);
        let result = RankOutcome {
            predicted: whole_model(&work.described, 2 * rows, seqs[group.rank()]),
            memory: rank.ledger().snapshot(),
            predicted_sent: predicted.sent.total(),
            traffic: rank.traffic(),
            seconds: rank.clock().now() - begun,
        };
        Ok((loss, gradients, result))
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
