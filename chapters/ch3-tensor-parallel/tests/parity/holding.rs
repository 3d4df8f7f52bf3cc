//! Bytes that a rank holds: weights, gradients and cache to the byte, activations within what descriptors of tensors take.

use super::gradients::backward;
use super::models::{batch, bundled};
use super::ranks::{FORMS, on_ranks};
use candle_core::DType;
use ch3_tensor_parallel::boundary::Inputs;
use ch3_tensor_parallel::memory::{Step, inference, training};
use ledger::Kind;

/// Descriptors of tensors, and what a message has under way.
const TOLERANCE: f64 = 0.05;

#[test]
fn a_training_step_holds_what_the_formula_says_in_every_form() {
    let model = bundled();
    let (rows, seq) = (4, 96);
    let (tokens, targets) = batch(&model, &[seq; 4]);
    for tp in [1, 2, 4] {
        for sequence in FORMS {
            let ranks = on_ranks(&model, tp, sequence, |rank, tensor| {
                let decoder = model.load(DType::F32, &tensor.training_split());
                let gradients = backward(&decoder, tensor.training_split(), &tokens, &targets);
                let snapshot = rank.ledger().snapshot().expect("this binary measures");
                drop(gradients);
                let step = Step { rows, seq, dtype: DType::F32, optimiser: 0 };
                Ok((training(tensor.layout(), rank.rank(), step, sequence), snapshot))
            });
            for (rank, (predicted, snapshot)) in ranks.into_iter().enumerate() {
                for (kind, bytes) in predicted {
                    let measured = snapshot.of(kind).peak;
                    let ratio = measured as f64 / bytes as f64;
                    println!("tp {tp}, {sequence:?}, rank {rank}, {kind}: {bytes} predicted, {measured}, {ratio:.3}");
                    assert!((ratio - 1.).abs() <= TOLERANCE, "tp {tp}, {sequence:?}, rank {rank}, {kind}: {ratio:.3}");
                }
            }
        }
    }
}

#[test]
fn generating_holds_the_own_weights_and_keys_to_the_byte() {
    let model = bundled();
    for tp in [1, 2, 4, 8] {
        on_ranks(&model, tp, None, |rank, tensor| {
            let decoder = model.load(DType::F32, &tensor.split());
            let cache = decoder.cache(3, 128)?;
            let snapshot = rank.ledger().snapshot().expect("this binary measures");
            for (kind, bytes) in inference(tensor.layout(), rank.rank(), 3, 128, DType::F32) {
                let measured = snapshot.of(kind).current;
                let exact = kind == Kind::KvCache;
                let close = (measured as f64 / bytes as f64 - 1.).abs() < 0.01;
                assert!(
                    if exact { measured == bytes } else { close },
                    "tp {tp}, {kind}: {measured}, {bytes} predicted"
                );
            }
            drop((decoder, cache));
            Ok(())
        });
    }
}

#[test]
fn slices_hold_less_than_whole_hidden_states_and_inputs_gathered_again_least() {
    let model = bundled();
    let (tokens, targets) = batch(&model, &[96; 4]);
    let peaks = FORMS.map(|sequence| {
        let ranks = on_ranks(&model, 4, sequence, |rank, tensor| {
            let decoder = model.load(DType::F32, &tensor.training_split());
            drop(backward(&decoder, tensor.training_split(), &tokens, &targets));
            Ok(rank.ledger().snapshot().expect("this binary measures").of(Kind::Activations).peak)
        });
        ranks.into_iter().max().unwrap()
    });
    let [whole, kept, again] = peaks;
    assert!(kept < whole && again < kept, "{FORMS:?}: {peaks:?}");
    assert_eq!(FORMS[1], Some(Inputs::Kept));
}
