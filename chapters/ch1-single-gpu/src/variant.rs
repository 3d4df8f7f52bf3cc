//! The single device, as `cargo compare` runs it: what every layout is compared with.

use anyhow::Context as _;
use collective::launch;
use decoder::Context;
use decoder::generation::generate;
use decoder::split::Split;
use lab::variant::{Outcome, RankOutcome, Variant, Work, whole_model};
use std::ops::ControlFlow;
use std::sync::Arc;
use training::accumulation::forward_backward;
use training::gradients::Gradients;

/// One device.
#[derive(Clone, Copy, Debug)]
pub struct Single;

/// What chapter 1 has to compare.
pub fn variants() -> Vec<Box<dyn Variant>> {
    vec![Box::new(Single)]
}

impl Variant for Single {
    fn name(&self) -> String {
        "single".to_owned()
    }

    /// As one rank: the same clock, ledger and code path as with several.
    fn run(&self, work: &Work) -> anyhow::Result<Outcome> {
        let tokens = launch(1, &work.options, |_| {
            let model = work.described.load(&Split::whole())?;
            let go_on = |_, _| Ok(ControlFlow::Continue(()));
            Ok::<_, lab::Error>(generate(&model, &Context::inference(), &work.prompts, &work.generation, go_on)?)
        })?;
        let outcome = launch(1, &work.options, |rank| {
            let model = work.described.load(&Split::whole())?;
            let sink = Arc::new(Gradients::expected(&model, 1));
            let ctx = Context::training(sink.clone()).with_observer(rank.observer());
            let begun = rank.clock().now();
            let loss = forward_backward(&model, &ctx, std::slice::from_ref(&work.batch), work.batch.count())?;
            let gradients = sink.finish()?;
            let result = RankOutcome {
                predicted: whole_model(&work.described, work.batch.rows, work.batch.seq),
                memory: rank.ledger().snapshot(),
                predicted_sent: 0,
                traffic: rank.traffic(),
                seconds: rank.clock().now() - begun,
            };
            Ok::<_, lab::Error>((loss, gradients, result))
        })?;
        let tokens = tokens.into_iter().flat_map(|generated| generated.ids).collect();
        let (loss, gradients, rank) = outcome.into_iter().next().context("one rank returns one result")?;
        Ok(Outcome { tokens, loss, gradients, ranks: vec![rank], bubble: None })
    }
}
