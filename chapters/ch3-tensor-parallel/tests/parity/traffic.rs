//! Calls, payload and bytes sent are the formula's, operation by operation, on every rank under every algorithm.

use super::gradients::backward;
use super::models::{Model, batch, cases};
use super::ranks::{FORMS, form};
use candle_core::{DType, Device};
use ch3_tensor_parallel::boundary::Inputs;
use ch3_tensor_parallel::communication::{Exchange, Tokens, counted, of_operation, total};
use ch3_tensor_parallel::{Error, TensorParallel};
use collective::{Algorithm, Operation, Options, Rank, Topology, launch};
use decoder::Context;

const OPERATIONS: [Operation; 4] =
    [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::Split];

fn assert_equal(what: &str, rank: &Rank, predicted: &[Exchange]) {
    let traffic = rank.traffic();
    for operation in OPERATIONS {
        let (predicted, counted) = (of_operation(predicted, operation), counted(&traffic, operation));
        assert_eq!(counted, predicted, "{what}, rank {}: {operation}", rank.rank());
    }
    assert_eq!(traffic.calls(), total(predicted).calls, "{what}: no other operation");
}

/// Two nodes, so that bytes within and between are told apart.
fn options(algorithm: Algorithm) -> Options {
    let topology = Topology { ranks_per_node: 2, ..Topology::default() };
    Options { algorithm, topology, ..Options::default() }
}

fn on_ranks(
    model: &Model,
    (tp, algorithm, sequence): (usize, Algorithm, Option<Inputs>),
    body: impl Fn(&Rank, TensorParallel) -> Result<Vec<Exchange>, Error> + Sync,
) {
    let what = format!("{}, tp {tp}, {algorithm}, {sequence:?}", model.name);
    launch(tp, &options(algorithm), |rank| {
        let predicted = body(rank, form(&model.config, rank, sequence)?)?;
        assert_equal(&what, rank, &predicted);
        Ok::<_, Error>(())
    })
    .unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn a_training_step_sends_what_the_formula_says() {
    let lengths = [9, 5];
    for (model, sizes) in cases() {
        let (tokens, targets) = batch(&model, &lengths);
        let shape = Tokens { rows: 2, seq: 9 };
        for tp in sizes {
            for algorithm in Algorithm::ALL {
                for sequence in FORMS {
                    on_ranks(&model, (tp, algorithm, sequence), |_, tensor| {
                        let decoder = model.load(DType::F64, &tensor.training_split());
                        let (_, mut gradients) = backward(&decoder, tensor.training_split(), &tokens, &targets);
                        tensor.synchronise(&mut gradients)?;
                        tensor.sum_of_squares(&gradients, 0)?;
                        tensor.gather(&gradients)?;
                        let formula = tensor.predictor(algorithm, &options(algorithm).topology, size_of::<f64>());
                        Ok([
                            formula.setup(),
                            formula.training(shape, sequence),
                            formula.synchronisation(sequence.is_some()),
                            formula.norm(),
                            formula.gathering(size_of::<f64>()),
                        ]
                        .concat())
                    });
                }
            }
        }
    }
}

#[test]
fn a_prompt_and_a_decode_step_send_two_reductions_per_layer_and_one_gather_of_logits() {
    for (model, sizes) in cases() {
        let rows = model.rows(&[6, 4]);
        for tp in sizes {
            on_ranks(&model, (tp, Algorithm::Ring, None), |_, tensor| {
                let decoder = model.load(DType::F32, &tensor.split());
                let ctx = Context::inference().with_split(tensor.split());
                let mut cache = decoder.cache(2, 8)?;
                let prompt: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
                let prompt = decoder::Tokens::from_zero(&prompt, &Device::Cpu)?;
                decoder.next_token_logits(&ctx, &prompt, Some(&mut cache))?;
                let step = decoder::Tokens::new(&[&[1], &[2]], vec![6, 4], &Device::Cpu)?;
                decoder.next_token_logits(&ctx, &step, Some(&mut cache))?;
                let formula = tensor.predictor(Algorithm::Ring, &options(Algorithm::Ring).topology, size_of::<f32>());
                let step = formula.forward(Tokens { rows: 2, seq: 1 });
                let calls = 2 * model.config.layers as u64 + 1;
                assert_eq!(total(&step).calls, calls, "two per layer, and the embedding");
                Ok([
                    formula.setup(),
                    formula.forward(Tokens { rows: 2, seq: 6 }),
                    formula.logits(2),
                    step,
                    formula.logits(2),
                ]
                .concat())
            });
        }
    }
}

/// Four reductions of the hidden states per layer: with sequence parallelism as many bytes around a ring.
#[test]
fn sequence_parallelism_sends_as_many_bytes_unless_inputs_are_gathered_again() {
    for (model, sizes) in cases() {
        for tp in sizes.into_iter().filter(|tp| 24 % tp == 0) {
            launch(tp, &Options::default(), |rank| {
                let tensor = form(&model.config, rank, None)?;
                let formula = tensor.predictor(Algorithm::Ring, &Topology::default(), size_of::<f32>());
                let tokens = Tokens { rows: 2, seq: 24 };
                let [plain, kept, again] = FORMS.map(|form| total(&formula.training(tokens, form)).sent.total());
                assert_eq!(kept, plain, "{}, tp {tp}", model.name);
                let slices = (24 * 2 * model.config.hidden * 4 * (tp - 1) / tp) as u64;
                assert_eq!(again, kept + 2 * model.config.layers as u64 * slices, "{}, tp {tp}", model.name);
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    }
}
