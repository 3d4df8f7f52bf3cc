//! Data parallelism, as `cargo compare` runs it.

use crate::core::Core;
use crate::serve::{generate_own, join};
use crate::{Error, traffic};
use anyhow::Context as _;
use collective::volume::Place;
use collective::{Rank, launch};
use decoder::Context;
use decoder::split::Split;
use lab::variant::{Outcome, RankOutcome, Variant, Work, whole_model};
use std::sync::Arc;
use training::Named;
use training::accumulation::{Loss, forward_backward};
use training::gradients::Gradients;

/// `dp` replicas.
#[derive(Clone, Copy, Debug)]
pub struct DataParallel {
    /// Ranks.
    pub dp: usize,
    /// The chapter's functions.
    pub core: Core,
}

/// What chapter 2 has to compare.
pub fn variants() -> Vec<Box<dyn Variant>> {
    [2, 4].map(|dp| Box::new(DataParallel { dp, core: Core::default() }) as Box<dyn Variant>).into()
}

impl Variant for DataParallel {
    fn name(&self) -> String {
        format!("dp={}", self.dp)
    }

    fn check(&self, work: &Work) -> lab::Result<()> {
        for (flag, found) in [("--prompt", work.prompts.len()), ("--batch", work.batch.rows)] {
            if found < self.dp {
                let found = if flag == "--prompt" { format!("({found} in all)") } else { found.to_string() };
                let expected = format!(
                    "dp={0} has one for each of its ranks: at least {0}, or other variants, with --only",
                    self.dp
                );
                return Err(lab::Error::Flag { flag, found, expected });
            }
        }
        Ok(())
    }

    fn run(&self, work: &Work) -> anyhow::Result<Outcome> {
        let tokens = launch(self.dp, &work.options, |rank| {
            let model = work.described.load(&Split::whole())?;
            let place = (rank.size(), rank.rank());
            generate_own(&self.core, place, &model, &Context::inference(), &work.prompts, &work.generation)
        })?;
        let ranks = launch(self.dp, &work.options, |rank| self.gradient(rank, work))?;
        let (mut results, mut whole) = (Vec::new(), None);
        for (loss, gradients, result) in ranks {
            // Every rank has the same; the first one's is shown.
            whole.get_or_insert((loss, gradients));
            results.push(result);
        }
        let (loss, gradients) = whole.context("at least one rank")?;
        Ok(Outcome { tokens: join(tokens).ids, loss, gradients, ranks: results, bubble: None })
    }
}

impl DataParallel {
    fn gradient(&self, rank: &Rank, work: &Work) -> Result<(Loss, Named, RankOutcome), Error> {
        let group = rank.communicator().as_ref();
        let model = work.described.load(&Split::whole())?;
        let rows = (self.core.rows_of_rank)(work.batch.rows, group.size(), group.rank());
        let (own, count) = (work.batch.rows(rows)?, work.batch.count());
        let sink = Arc::new(Gradients::expected(&model, 1));
        let ctx = Context::training(sink.clone()).with_observer(rank.observer());
        let begun = rank.clock().now();
        let mut loss = forward_backward(&model, &ctx, std::slice::from_ref(&own), count)?;
        let mut gradients = sink.finish()?;
        let sizes = traffic::gradient_sizes(&gradients);
        (self.core.synchronise)(group, &mut loss, &mut gradients)?;
        let place = Place::of(group.rank(), group.members(), &work.options.topology);
        let result = RankOutcome {
            predicted: whole_model(&work.described, own.rows, own.seq),
            memory: rank.ledger().snapshot(),
            predicted_sent: traffic::synchronisation(work.options.algorithm, &place, &sizes).sent.total(),
            traffic: rank.traffic(),
            seconds: rank.clock().now() - begun,
        };
        Ok((loss, gradients, result))
    }
}
