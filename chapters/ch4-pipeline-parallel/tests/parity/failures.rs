//! A stage that fails, and numbers that do not fit.

use super::support::{batch, config, cut, load};
use candle_core::Device;
use ch4_pipeline_parallel::engine::{MicroBatch, Pipeline, Stage};
use ch4_pipeline_parallel::schedule::{Kind, Layout};
use ch4_pipeline_parallel::stages::{LayerCosts, Stages};
use collective::{Options, launch};
use decoder::Context;
use lab::batch::Batch;
use ledger::{Observer, Operation, Phase};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Objects to the n-th operation of a phase.
struct Objects(Phase, std::sync::atomic::AtomicI64);

impl Observer for Objects {
    fn observe(&self, operation: &Operation) -> Result<(), ledger::Error> {
        let left = self.1.fetch_sub(i64::from(operation.phase == self.0), std::sync::atomic::Ordering::Relaxed);
        if left == 1 { Err(ledger::Error::NotCounting) } else { Ok(()) }
    }
}

#[test]
fn a_stage_that_fails_in_the_middle_ends_the_run_with_its_own_error() {
    let config = config(true, 16);
    let batch = batch(&config, 8, 3);
    let parts = MicroBatch::split_sequences(&batch, 8, &Device::Cpu).unwrap();
    for kind in [Kind::Gpipe, Kind::OneForwardOneBackward, Kind::Interleaved, Kind::ZbH2, Kind::ZbV] {
        for (failing, phase, nth) in [
            (0, Phase::Forward, 1),
            (1, Phase::Forward, 60),
            (2, Phase::InputGradient, 30),
            (3, Phase::WeightGradient, 5),
        ] {
            let pipeline = Pipeline::new(kind.schedule(4, 8, 2).unwrap(), cut(kind, 4, &config).unwrap()).unwrap();
            let start = Instant::now();
            let outcome = launch(4, &Options::default(), |rank| {
                let split = pipeline.stages().split(rank.rank());
                let model = load(&config, 3, &split);
                let nth = if rank.rank() == failing { nth } else { -1 };
                let observer = Arc::new(Objects(phase, nth.into()));
                let context = Context::inference().with_split(split).with_observer(observer);
                let communicator = &**rank.communicator();
                let stage =
                    Stage { pipeline: &pipeline, communicator, clock: rank.clock(), model: &model, context: &context };
                stage.step(&parts, batch.targets()).map(drop)
            });
            let message = outcome.unwrap_err().to_string();
            let named = message.contains(&format!("rank {failing} failed")) && !message.contains("deadlock");
            assert!(named, "{} {failing} {phase:?}: {message}", kind.name());
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let config = config(false, 6);
    let costs = LayerCosts::flops(&config, 6).unwrap();
    let message = |layout, p| Stages::balanced(layout, p, &costs).unwrap_err().to_string();
    assert!(message(Layout::Straight, 7).contains("at most 6 stages"), "{}", message(Layout::Straight, 7));
    let interleaved = message(Layout::Interleaved { chunks: 2 }, 4);
    assert!(interleaved.contains("at most 3 stages of 2 chunks"), "{interleaved}");
    assert!(Stages::balanced(Layout::Straight, 0, &costs).is_err());
    let by_hand = |counts: &[usize]| Stages::by_hand(Layout::Straight, 3, 6, counts);
    assert!(by_hand(&[2, 2, 1]).unwrap_err().to_string().contains("add up to 5"));
    assert!(by_hand(&[3, 3]).unwrap_err().to_string().contains("one per chunk, 3"));
    assert!(by_hand(&[3, 0, 3]).unwrap_err().to_string().contains("chunk 1 holds nothing"));
    assert_eq!(by_hand(&[1, 5, 0]).unwrap().chunks(), [0..1, 1..6, 6..6]);

    let batch = batch(&config, 4, 1);
    for count in [0, 5] {
        let message = MicroBatch::split_sequences(&batch, count, &Device::Cpu).unwrap_err().to_string();
        assert!(message.contains("1 to 4"), "{message}");
    }
    let stages = Stages::balanced(Layout::Straight, 2, &costs).unwrap();
    assert!(Pipeline::new(Kind::Gpipe.schedule(3, 2, 1).unwrap(), stages.clone()).is_err());
    let both_ends = Stages::balanced(Layout::Bidirectional, 2, &costs).unwrap();
    let dual = Pipeline::new(Kind::Dualpipe.schedule(2, 4, 2).unwrap(), both_ends).unwrap_err().to_string();
    assert!(dual.contains("timed only"), "{dual}");
    let pipeline = Pipeline::new(Kind::Gpipe.schedule(2, 2, 1).unwrap(), stages).unwrap();
    let parts = MicroBatch::split_sequences(&batch, 4, &Device::Cpu).unwrap();
    let outcome = super::support::step(&pipeline, &config, 1, &parts, batch.targets(), &Options::default());
    let message = outcome.err().unwrap().to_string();
    assert!(message.contains("micro-batches = 4") && message.contains("schedule's 2"), "{message}");
}

/// One device leaves a sequence of one token out; a micro-batch of it alone must not stop the pipeline.
#[test]
fn sequences_that_predict_nothing_are_in_no_micro_batch() {
    let config = config(true, 16);
    let batch = Batch::new("--ids", vec![vec![3], vec![1, 2], vec![4], vec![5, 6, 7]], &config).unwrap();
    let parts = MicroBatch::split_sequences(&batch, 2, &Device::Cpu).unwrap();
    assert_eq!(parts.iter().map(|part| part.targets.clone()).collect::<Vec<_>>(), [vec![2], vec![6, 7]]);
    let message = MicroBatch::split_sequences(&batch, 3, &Device::Cpu).unwrap_err().to_string();
    assert!(message.contains("1 to 2"), "{message}");
}
