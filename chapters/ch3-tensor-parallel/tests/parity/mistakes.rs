//! The bugs of the exercises: each makes a gradient wrong by far more than the tolerance, so the tests of parity would find it.

use super::compare::difference;
use super::gradients::backward;
use super::models::{Model, all, batch};
use candle_core::DType;
use ch3_tensor_parallel::TensorParallel;
use ch3_tensor_parallel::boundary::Inputs;
use ch3_tensor_parallel::core::Core;
use collective::{Options, launch};
use decoder::split::Split;
use lab::flags::WithFlags;

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
        tensor.gather(&gradients)
    })
    .unwrap();
    found[0].iter().map(|(name, found)| difference(found, &expected[name])).fold(0., f64::max)
}

#[test]
fn every_mistake_makes_a_gradient_wrong() {
    let models = all();
    let find = |name: &str| models.iter().find(|model| model.name.starts_with(name)).unwrap();
    let (bundled, shared, normed) = (find("stories"), find("16 heads"), find("8 heads"));
    let bug = |name: &str| {
        let with: WithFlags = WithFlags { with: format!("bug:{name}").parse().unwrap() };
        Core::choose(&with).unwrap()
    };
    let cases = [
        ("f-gradient-not-summed", bundled, 2, false),
        ("f-reduces-forward", bundled, 2, false),
        ("g-summand-not-summed", bundled, 2, false),
        ("g-reduces-twice", bundled, 2, false),
        ("part-rank-ignored", bundled, 2, false),
        ("part-key-heads-in-turn", shared, 4, false),
        ("sum-norms-forgotten", bundled, 2, true),
        ("sum-norms-always", bundled, 2, false),
        ("sum-head-norms-forgotten", normed, 2, false),
        ("sum-shared-keys-forgotten", shared, 4, false),
        ("sum-shared-keys-everywhere", shared, 4, false),
    ];
    for (mistake, model, tp, sequence) in cases {
        let core = bug(mistake);
        let off = off(model, tp, core, sequence);
        println!("{mistake}: {off:.1e}");
        assert!(off > 1e-3 || off.is_nan(), "{mistake} was not found: {off:e}");
    }
    for (model, tp) in [(bundled, 2), (shared, 4), (normed, 2)] {
        assert!(
            off(model, tp, Core::default(), true) <= super::compare::GRADIENTS,
            "and without a mistake nothing is found"
        );
    }
}
