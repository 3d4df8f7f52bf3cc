//! Typical mistakes: each makes a gradient wrong by far more than the tolerance, so the tests of parity would find it.

use super::compare::difference;
use super::gradients::backward;
use super::models::{Model, all, batch};
use candle_core::DType;
use ch3_tensor_parallel::boundary::Inputs;
use ch3_tensor_parallel::core::Core;
use ch3_tensor_parallel::gradients::{Summed, summed_over};
use ch3_tensor_parallel::layout::{Layout, part_of_rank};
use ch3_tensor_parallel::{Error, TensorParallel};
use collective::{Options, autograd, launch};
use decoder::split::Split;
use decoder::weights::Role;

fn nowhere(_: &Layout, _: Role, _: bool) -> Summed {
    Summed::Nowhere
}

fn not_norms_of_q_and_k(layout: &Layout, role: Role, sequence: bool) -> Summed {
    if matches!(role, Role::QueryNorm | Role::KeyNorm) { Summed::Nowhere } else { summed_over(layout, role, sequence) }
}

fn key_heads_over_all(layout: &Layout, role: Role, sequence: bool) -> Summed {
    match summed_over(layout, role, sequence) {
        Summed::Nowhere => Summed::Nowhere,
        _ => Summed::Everywhere,
    }
}

fn replicated_everywhere(layout: &Layout, role: Role, sequence: bool) -> Summed {
    match role {
        Role::AttentionNorm | Role::FinalNorm => Summed::Everywhere,
        _ => summed_over(layout, role, sequence),
    }
}

/// Largest relative difference of a gathered gradient.
fn off(model: &Model, tp: usize, core: Core, sequence: bool) -> f64 {
    let (tokens, targets) = batch(model, &[9, 5]);
    let (_, expected) = backward(&model.load(DType::F64, &Split::whole()), Split::whole(), &tokens, &targets);
    let found = launch(tp, &Options::default(), |rank| {
        let tensor = TensorParallel::new(core, &model.config, rank.communicator())?;
        let tensor = if sequence { tensor.with_sequence_parallelism(Inputs::Kept) } else { tensor };
        let (_, mut gradients) =
            backward(&model.load(DType::F64, &tensor.training_split()), tensor.training_split(), &tokens, &targets);
        tensor.synchronise(&mut gradients)?;
        tensor.gather(&gradients).map_err(Error::from)
    })
    .unwrap();
    found[0].iter().map(|(name, found)| difference(found, &expected[name])).fold(0., f64::max)
}

#[test]
fn every_mistake_makes_a_gradient_wrong() {
    let models = all();
    let find = |name: &str| models.iter().find(|model| model.name.starts_with(name)).unwrap();
    let (bundled, shared, normed) = (find("stories"), find("16 heads"), find("8 heads"));
    let right = Core::default();
    let cases: [(&str, &Model, usize, Core, bool); 9] = [
        ("f without its all-reduce", bundled, 2, Core { f: |_, x| Ok(x.clone()), ..right }, false),
        ("g without its all-reduce", bundled, 2, Core { g: |_, x| Ok(x.clone()), ..right }, false),
        (
            "g reduces in the backward too",
            bundled,
            2,
            Core { g: |group, x| autograd::copy_to_group(group, &autograd::reduce_from_group(group, x)?), ..right },
            false,
        ),
        (
            "the same slice on every rank",
            bundled,
            2,
            Core { part_of_rank: |layout, weight, _| part_of_rank(layout, weight, 0), ..right },
            false,
        ),
        ("norms are not summed under sequence parallelism", bundled, 2, Core { summed_over: nowhere, ..right }, true),
        ("norms of q and k are not summed", normed, 2, Core { summed_over: not_norms_of_q_and_k, ..right }, false),
        ("shared key heads are not summed", shared, 4, Core { summed_over: nowhere, ..right }, false),
        (
            "shared key heads are summed over all ranks",
            shared,
            4,
            Core { summed_over: key_heads_over_all, ..right },
            false,
        ),
        (
            "norms are summed without sequence parallelism",
            bundled,
            2,
            Core { summed_over: replicated_everywhere, ..right },
            false,
        ),
    ];
    for (mistake, model, tp, core, sequence) in cases {
        let off = off(model, tp, core, sequence);
        println!("{mistake}: {off:.1e}");
        assert!(off > 1e-3 || off.is_nan(), "{mistake} was not found: {off:e}");
    }
    for (model, tp) in [(bundled, 2), (shared, 4), (normed, 2)] {
        assert!(off(model, tp, right, true) <= super::compare::GRADIENTS, "and without a mistake nothing is found");
    }
}
