//! Resources: right values alone could come without any parallelism.

use crate::support::{adamw, config, corpus, fresh_seed, model, plan, run};
use candle_core::DType;
use ch2_data_parallel::shard::rows_of_rank;
use ch2_data_parallel::train::{Replica, Settings};
use collective::{Algorithm, Operation, Options, Topology, launch};
use ledger::Kind;
use training::interrupt::Interrupt;

#[test]
fn calls_and_bytes_are_those_of_the_formula_and_do_not_grow_with_micro_batches() {
    let (seed, config) = (fresh_seed(), config(true));
    let data = corpus(config.vocab, 4000, seed);
    let topology = Topology { ranks_per_node: 3, ..Topology::default() };
    for (algorithm, dp) in [
        (Algorithm::Ring, 2),
        (Algorithm::Ring, 5),
        (Algorithm::Tree, 5),
        (Algorithm::Hierarchical, 5),
        (Algorithm::Ring, 1),
    ] {
        for micro_batches in [1, 4] {
            let options = Options { algorithm, topology, ..Options::default() };
            let plan = plan(adamw(), 7, micro_batches);
            let all = launch(dp, &options, |rank| {
                let mut run = run(&plan, model(&config, DType::F32, seed), &data, rank.observer());
                let settings = Settings { check_every: 3, ..Settings::default() };
                let mut replica = Replica::begin(rank.communicator().as_ref(), &run, settings)?;
                replica.train(&mut run, &Interrupt::default(), None, |_| {})?;
                let parameters = run.parameters().len() as u64;
                Ok::<_, ch2_data_parallel::Error>((
                    replica.predicted(&run, algorithm, &topology),
                    rank.traffic(),
                    parameters,
                ))
            });
            for (rank, (predicted, traffic, parameters)) in all.unwrap().into_iter().enumerate() {
                let here = format!("{algorithm}, dp {dp}, {micro_batches} micro-batches, rank {rank}");
                assert_eq!(traffic.sent(), predicted.sent, "{here}");
                assert_eq!(traffic.calls(), predicted.calls, "{here}");
                // Per step one sum for each parameter, one for the loss, one to agree; at the start, after 3, 6 and 7 steps a comparison.
                assert_eq!(traffic.of(Operation::AllReduce).0, 7 * (parameters + 2), "{here}");
                assert_eq!(traffic.of(Operation::AllGather).0, 4, "{here}");
                assert_eq!(traffic.entries().len(), 2, "{here}");
            }
        }
    }
}

#[test]
fn each_rank_holds_the_whole_model_and_the_activations_of_its_rows_alone() {
    let (seed, config) = (fresh_seed(), config(false));
    let data = corpus(config.vocab, 4000, seed);
    // Large enough that the descriptors of tensors do not count.
    let plan = training::plan::Plan { seq: 32, ..plan(adamw(), 2, 1) };
    let held = |dp: usize| {
        launch(dp, &Options::default(), |rank| {
            let mut run = run(&plan, model(&config, DType::F64, seed), &data, rank.observer());
            let mut replica = Replica::begin(rank.communicator().as_ref(), &run, Settings::default())?;
            replica.train(&mut run, &Interrupt::default(), None, |_| {})?;
            Ok::<_, ch2_data_parallel::Error>(rank.ledger().snapshot().unwrap())
        })
        .unwrap()
    };
    let alone = held(1).remove(0);
    for dp in [2, 4] {
        for (rank, memory) in held(dp).iter().enumerate() {
            for kind in [Kind::Weights, Kind::Gradients, Kind::Optimiser] {
                let (found, whole) = (memory.of(kind).peak as f64, alone.of(kind).peak as f64);
                assert!((found / whole - 1.0).abs() < 0.02, "dp {dp}, rank {rank}, {kind}: {found} of {whole}");
            }
            let share = rows_of_rank(plan.batch, dp, rank).len() as f64 / plan.batch as f64;
            let found = memory.of(Kind::Activations).peak as f64 / alone.of(Kind::Activations).peak as f64;
            assert!((found / share - 1.0).abs() < 0.1, "dp {dp}, rank {rank}: activations {found}, rows {share}");
        }
    }
}
