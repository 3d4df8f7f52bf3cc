//! Step by step: every loss, every gradient after the sum, and the weights at the end.

use crate::support::{DP, adamw, bits, config, copies, corpus, fresh_seed, model, plan, run, tolerance, worst};
use candle_core::DType;
use ch2_data_parallel::shard::rows_of_rank;
use ch2_data_parallel::synchronise::synchronise;
use collective::{Algorithm, Options, launch};
use ledger::Ignore;
use std::sync::Arc;
use training::Named;
use training::optimiser::Rule;
use training::plan::Plan;
use training::run::Run;

/// What a run leaves: losses, the gradients of each step (by which it is compared, because Adam hides a constant factor), the weights.
struct Trajectory {
    losses: Vec<f64>,
    gradients: Vec<Named>,
    weights: Named,
}

/// Takes all steps of `run`, as replica `rank` of `ranks`.
fn trajectory(
    mut run: Run,
    mut step: impl FnMut(&mut Run, &mut Vec<Named>) -> ch2_data_parallel::Result<f64>,
) -> ch2_data_parallel::Result<Trajectory> {
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    while !run.is_done() {
        losses.push(step(&mut run, &mut gradients)?);
    }
    Ok(Trajectory { losses, gradients, weights: copies(run.parameters()) })
}

fn of_one_device(plan: &Plan, dtype: DType, tied: bool, seed: u64) -> Trajectory {
    let config = config(tied);
    let run = run(plan, model(&config, dtype, seed), &corpus(config.vocab, 4000, seed), Arc::new(Ignore));
    trajectory(run, |run, gradients| {
        let rows = 0..run.plan().batch;
        let record = run.step_with(rows, |_, named| {
            gradients.push(copies(named));
            Ok::<_, ch2_data_parallel::Error>(())
        })?;
        Ok(record.loss)
    })
    .unwrap()
}

fn of_replicas(dp: usize, plan: &Plan, dtype: DType, tied: bool, seed: u64, algorithm: Algorithm) -> Vec<Trajectory> {
    let config = config(tied);
    let data = corpus(config.vocab, 4000, seed);
    let options = Options { algorithm, ..Options::default() };
    launch(dp, &options, |rank| {
        let run = run(plan, model(&config, dtype, seed), &data, rank.observer());
        let rows = rows_of_rank(plan.batch, dp, rank.rank());
        trajectory(run, |run, gradients| {
            let record = run.step_with(rows.clone(), |loss, named| {
                synchronise(rank.communicator().as_ref(), loss, named)?;
                gradients.push(copies(named));
                Ok::<_, ch2_data_parallel::Error>(())
            })?;
            Ok(record.loss)
        })
    })
    .unwrap()
}

/// Compares all numbers of replicas with one device, prints the largest differences, and demands the tolerances.
fn compare(plan: &Plan, dtype: DType, tied: bool) {
    let (seed, limit) = (fresh_seed(), tolerance(dtype));
    let expected = of_one_device(plan, dtype, tied, seed);
    for dp in DP {
        let ranks = of_replicas(dp, plan, dtype, tied, seed, Algorithm::Ring);
        for (rank, found) in ranks.iter().enumerate() {
            let loss = found.losses.iter().zip(&expected.losses).map(|(one, other)| ((one - other) / other).abs());
            let loss = loss.fold(0.0, f64::max);
            let gradient = found.gradients.iter().zip(&expected.gradients).map(|(one, other)| worst(one, other));
            let gradient = gradient.fold(0.0, f64::max);
            let weights = worst(&found.weights, &expected.weights);
            if rank == 0 {
                println!("dp {dp}: loss {loss:.1e}, gradients {gradient:.1e}, weights {weights:.1e}");
            }
            assert_eq!(found.losses.len(), plan.steps as usize);
            assert!(loss <= limit.loss, "dp {dp}, rank {rank}: loss {loss:e}");
            assert!(gradient <= limit.gradient, "dp {dp}, rank {rank}: gradients {gradient:e}");
            assert!(weights <= limit.gradient, "dp {dp}, rank {rank}: weights {weights:e}");
            assert_eq!(bits(&found.weights), bits(&ranks[0].weights), "replicas are the same to the bit");
        }
    }
}

#[test]
fn twenty_sgd_steps_in_f64_are_those_of_one_device() {
    compare(&plan(Rule::Sgd, 20, 1), DType::F64, false);
}

#[test]
fn twenty_adamw_steps_in_f64_with_a_tied_embedding_and_accumulation_are_those_of_one_device() {
    compare(&plan(adamw(), 20, 3), DType::F64, true);
}

#[test]
fn five_sgd_steps_in_f32_are_those_of_one_device() {
    compare(&plan(Rule::Sgd, 5, 1), DType::F32, false);
}

#[test]
fn the_clipping_norm_is_that_of_the_summed_gradient() {
    // Where nothing is clipped the trajectory is another: the comparison above would not see a norm of the rank's own gradient.
    let (seed, dtype) = (fresh_seed(), DType::F64);
    let unclipped = Plan { clip: None, ..plan(Rule::Sgd, 5, 1) };
    let (with, without) =
        (of_one_device(&plan(Rule::Sgd, 5, 1), dtype, false, seed), of_one_device(&unclipped, dtype, false, seed));
    assert!(worst(&with.weights, &without.weights) > 1e-3, "the norm is above the limit");
    let replicas = of_replicas(4, &unclipped, dtype, false, seed, Algorithm::Ring);
    assert!(worst(&replicas[3].weights, &without.weights) <= tolerance(dtype).gradient);
}

#[test]
fn every_algorithm_gives_the_same_training() {
    let (seed, plan) = (fresh_seed(), plan(adamw(), 4, 1));
    let expected = of_one_device(&plan, DType::F64, false, seed);
    for algorithm in Algorithm::ALL {
        let found = of_replicas(5, &plan, DType::F64, false, seed, algorithm);
        let difference = worst(&found[4].weights, &expected.weights);
        assert!(difference <= tolerance(DType::F64).gradient, "{algorithm}: {difference:e}");
    }
}
