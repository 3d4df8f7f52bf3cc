//! Batches whose sequences have unequally many tokens: the mean over the batch is no mean of the ranks' means.

use crate::support::{config, fresh_seed, model, tolerance, worst};
use candle_core::DType;
use ch2_data_parallel::core::Core;
use ch2_data_parallel::serve::{generate_own, gradients, join, score_own};
use ch2_data_parallel::shard::rows_of_rank;
use collective::{Options, launch};
use decoder::Context;
use decoder::generation::{Options as Generation, Sampling, generate};
use decoder::random::Rng;
use lab::batch::Batch;
use lab::score::{Score, score};
use std::ops::ControlFlow;

/// `rows` sequences of 1 to 20 tokens, the first of them long enough that something is predicted.
fn sequences(rows: usize, vocab: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(seed);
    let mut draw = |length: usize| (0..length).map(|_| rng.below(vocab) as u32).collect::<Vec<_>>();
    let mut lengths = Rng::new(seed + 1);
    (0..rows).map(|row| draw(if row == 0 { 20 } else { 1 + lengths.below(20) })).collect()
}

#[test]
fn gradients_of_unequal_sequences_are_those_of_one_device_also_where_a_rank_predicts_nothing() {
    let (seed, config) = (fresh_seed(), config(false));
    let mut drawn = sequences(7, config.vocab, seed);
    // The last rank of four has row 6 alone, and nothing to predict.
    drawn[6].truncate(1);
    let batch = Batch::new("--ids", drawn, &config).unwrap();
    for dtype in [DType::F64, DType::F32] {
        let whole = model(&config, dtype, seed);
        let (loss, expected) = lab::gradients::gradients(&whole, &Context::inference(), &batch).unwrap();
        for dp in [1, 2, 3, 4, 7] {
            let all = launch(dp, &Options::default(), |rank| {
                let replica = model(&config, dtype, seed);
                gradients(&Core::default(), rank.communicator().as_ref(), &replica, &Context::inference(), &batch)
            });
            for (rank, (found, named)) in all.unwrap().into_iter().enumerate() {
                let (difference, limit) = (worst(&named, &expected), tolerance(dtype));
                assert!(difference <= limit.gradient, "dp {dp}, rank {rank}: {difference:e}");
                assert!((found.mean() - loss).abs() <= limit.loss * loss, "dp {dp}: {} and {loss}", found.mean());
                assert_eq!(found.count, batch.targets());
            }
        }
    }
}

#[test]
fn scores_are_those_of_one_device() {
    let (seed, config) = (fresh_seed(), config(false));
    let batch = Batch::new("--ids", sequences(9, config.vocab, seed), &config).unwrap();
    let whole = model(&config, DType::F64, seed);
    let expected = score(&whole, &Context::inference(), &batch).unwrap();
    for dp in [1, 2, 4, 9] {
        let parts = launch(dp, &Options::default(), |rank| {
            let replica = model(&config, DType::F64, seed);
            score_own(&Core::default(), (dp, rank.rank()), &replica, &Context::inference(), &batch)
        });
        let found = Score::of(parts.unwrap().into_iter().flatten().collect());
        assert!((found.loss - expected.loss).abs() < 1e-12 && found.count == expected.count);
        for (found, expected) in found.sequences.iter().zip(&expected.sequences) {
            assert_eq!((&found.ids, &found.argmax), (&expected.ids, &expected.argmax));
            let differences = found.logprobs.iter().zip(&expected.logprobs).map(|(one, other)| (one - other).abs());
            assert!(differences.fold(0.0, f64::max) < 1e-12);
        }
    }
}

#[test]
fn replicas_generate_what_one_device_does_greedily_and_by_drawing() {
    let (seed, config) = (fresh_seed(), config(false));
    let prompts: Vec<_> = sequences(8, config.vocab, seed)
        .into_iter()
        .map(|mut ids| {
            ids.truncate(10);
            ids
        })
        .collect();
    let whole = model(&config, DType::F64, seed);
    for temperature in [0.0, 0.9] {
        let sampling = Sampling { temperature, seed, ..Sampling::default() };
        let options = Generation { sampling, max_tokens: 12, ..Generation::default() };
        let go_on = |_, _| Ok(ControlFlow::Continue(()));
        let expected = generate(&whole, &Context::inference(), &prompts, &options, go_on).unwrap();
        for dp in [1, 2, 3, 8] {
            let parts = launch(dp, &Options::default(), |rank| {
                let replica = model(&config, DType::F64, seed);
                let place = (dp, rank.rank());
                let own = generate_own(&Core::default(), place, &replica, &Context::inference(), &prompts, &options)?;
                assert_eq!(own.ids.len(), rows_of_rank(prompts.len(), dp, rank.rank()).len());
                assert_eq!(rank.traffic().calls(), 0, "inference on replicas needs no communication");
                Ok::<_, ch2_data_parallel::Error>(own)
            });
            assert_eq!(join(parts.unwrap()).ids, expected.ids, "dp {dp}, temperature {temperature}");
        }
    }
}
