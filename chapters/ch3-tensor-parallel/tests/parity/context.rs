//! The tokens of a sequence over ranks: logits, loss and gradients are those of one device.

use super::compare::{GRADIENTS, WEIGHTS, assert_close, difference};
use super::gradients::backward;
use super::models::{Model, all, seed};
use candle_core::{DType, Device, Tensor};
use ch2_data_parallel::synchronise::synchronise;
use ch3_tensor_parallel::Error;
use ch3_tensor_parallel::communication::{counted, ring, ring_backward};
use ch3_tensor_parallel::context::{ContextParallel, zigzag};
use ch3_tensor_parallel::core::Core;
use collective::volume::Place;
use collective::{Operation, Options, Rank, launch};
use decoder::ops::IGNORED;
use decoder::random::Rng;
use decoder::split::Split;
use decoder::{Context, Decoder, Tokens};
use std::sync::Arc;
use training::gradients::Gradients;
use training::optimiser::{Optimiser, Rule};
use training::{Named, accumulation::Loss, segments};

const CP: [usize; 2] = [2, 4];
/// Unequal, and no multiple of the chunks.
const LENGTHS: [usize; 2] = [19, 13];

fn targets(model: &Model) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(seed().wrapping_add(4_000));
    let mut target = |_| if rng.below(6) > 0 { rng.below(model.config.vocab) as u32 } else { IGNORED };
    LENGTHS.map(|length| (0..length).map(&mut target).collect()).to_vec()
}

fn padded(rows: &[Vec<u32>]) -> Vec<u32> {
    let longest = rows.iter().map(Vec::len).max().unwrap();
    rows.iter().flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(IGNORED, longest - row.len()))).collect()
}

/// Loss and gradients on every rank.
fn of_group(model: &Model, cp: usize) -> Vec<(Loss, Named)> {
    let (rows, targets) = (model.rows(&LENGTHS), targets(model));
    launch(cp, &Options::default(), |rank| {
        let parallel = ContextParallel::new(Core::default(), rank.communicator(), &LENGTHS)?;
        let decoder = model.load(DType::F64, &Split::whole());
        let found = of_rank(&parallel, rank, &decoder, (&rows, &targets))?;
        let seq: Vec<_> = (0..cp).map(|rank| parallel.seq(rank)).collect();
        let place = Place::flat(rank.rank(), cp);
        let predicted = ring(&place, &model.config, 2, &seq, 8) + ring_backward(&place, &model.config, 2, &seq, 8);
        assert_eq!(counted(&rank.traffic(), Operation::SendReceive), predicted, "{}, cp {cp}", model.name);
        Ok::<_, Error>(found)
    })
    .unwrap_or_else(|error| panic!("{}, cp {cp}: {error}", model.name))
}

/// Loss and gradients of all tokens, each rank having computed its own.
fn of_rank(
    parallel: &ContextParallel,
    rank: &Rank,
    decoder: &Decoder,
    (rows, targets): (&[Vec<u32>], &[Vec<u32>]),
) -> Result<(Loss, Named), Error> {
    let count = targets.iter().flatten().filter(|&&target| target != IGNORED).count();
    let sink = Arc::new(Gradients::expected(decoder, 1));
    let ctx = Context::training(sink.clone()).with_split(parallel.split(Split::whole()));
    let tokens = parallel.tokens(rows, &Device::Cpu)?;
    let own = parallel.own(targets, IGNORED);
    let (sum, here) = segments::forward_backward(decoder, &ctx, &tokens, &own, 1. / count as f64)?;
    let (mut loss, mut gradients) = (Loss { sum, count: here }, sink.finish()?);
    synchronise(rank.communicator().as_ref(), &mut loss, &mut gradients).unwrap();
    Ok((loss, gradients))
}

/// Windows shorter than a chunk (of one token there is no gradient of the keys), of several chunks, and none.
fn models() -> Vec<Model> {
    let mut models = all();
    for window in [2, 3, 11] {
        let mut model = all().remove(11);
        model.name = format!("{}, window {window}", model.name);
        model.config.windows = vec![Some(window); model.config.layers];
        models.push(model);
    }
    models
}

#[test]
fn gradients_of_tokens_on_two_and_four_ranks_are_those_of_one_device() {
    let (mut worst, mut runs) = (0f64, 0);
    for model in models() {
        let (rows, targets) = (model.rows(&LENGTHS), padded(&targets(&model)));
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let tokens = Tokens::from_zero(&rows, &Device::Cpu).unwrap();
        let (sum, expected) = backward(&model.load(DType::F64, &Split::whole()), Split::whole(), &tokens, &targets);
        for cp in CP {
            for (loss, found) in of_group(&model, cp) {
                let what = format!("{}, cp {cp}", model.name);
                assert!((loss.sum - sum).abs() <= 1e-12 * sum, "{what}: loss {}, expected {sum}", loss.sum);
                worst = worst.max(assert_close(&what, &found, &expected, GRADIENTS));
            }
            runs += 1;
        }
    }
    println!("{runs} runs, largest difference of a gradient {worst:.1e}");
}

#[test]
fn weights_after_five_sgd_steps_of_tokens_on_ranks_are_those_of_one_device() {
    let steps = |decoder: &Decoder, gradients: &mut dyn FnMut() -> Named| -> Named {
        let mut optimiser = Optimiser::new(Rule::Sgd).unwrap();
        let parameters: Named =
            decoder.parameters().into_iter().map(|(one, _)| (one.name().clone(), one.value().clone())).collect();
        for _ in 0..5 {
            optimiser.step(&parameters, &gradients(), 0.3, 1.).unwrap();
        }
        parameters
    };
    let mut worst = 0f64;
    for model in models() {
        let (rows, targets) = (model.rows(&LENGTHS), targets(&model));
        let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let tokens = Tokens::from_zero(&views, &Device::Cpu).unwrap();
        let whole = model.load(DType::F64, &Split::whole());
        let flat = padded(&targets);
        let expected = steps(&whole, &mut || backward(&whole, Split::whole(), &tokens, &flat).1);
        for cp in CP {
            let ranks = launch(cp, &Options::default(), |rank| {
                let parallel = ContextParallel::new(Core::default(), rank.communicator(), &LENGTHS)?;
                let decoder = model.load(DType::F64, &Split::whole());
                Ok::<_, Error>(steps(&decoder, &mut || {
                    of_rank(&parallel, rank, &decoder, (&rows, &targets)).unwrap().1
                }))
            })
            .unwrap();
            for found in ranks {
                worst = worst.max(assert_close(&format!("{}, cp {cp}", model.name), &found, &expected, WEIGHTS));
            }
        }
    }
    println!("largest difference of a weight {worst:.1e}");
}

#[test]
fn the_logits_after_a_prompt_are_those_of_one_device() {
    for model in models() {
        let rows = model.rows(&LENGTHS);
        let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let tokens = Tokens::from_zero(&views, &Device::Cpu).unwrap();
        let whole = model.load(DType::F64, &Split::whole());
        let expected = whole.next_token_logits(&Context::inference(), &tokens, None).unwrap();
        for cp in CP {
            let ranks = launch(cp, &Options::default(), |rank| {
                let parallel = ContextParallel::new(Core::default(), rank.communicator(), &LENGTHS)?;
                let decoder = model.load(DType::F64, &Split::whole());
                let ctx = Context::inference().with_split(parallel.split(Split::whole()));
                let logits = decoder.next_token_logits(&ctx, &parallel.tokens(&rows, &Device::Cpu)?, None)?;
                let mine = |row: usize| (parallel.last(row).0 == rank.rank()).then(|| logits.get(parallel.last(row).1));
                let traffic = rank.traffic();
                assert_eq!(traffic.calls(), traffic.of(Operation::SendReceive).0, "keys and values, nothing else");
                assert_eq!(traffic.calls() as usize, (cp - 1) * model.config.layers);
                Ok::<_, Error>((0..rows.len()).map(|row| mine(row).transpose()).collect::<Result<Vec<_>, _>>()?)
            })
            .unwrap();
            for row in 0..rows.len() {
                let found: Vec<Tensor> = ranks.iter().filter_map(|logits| logits[row].clone()).collect();
                assert_eq!(found.len(), 1, "one rank has the last token");
                let off = difference(&found[0], &expected.get(row).unwrap());
                assert!(off <= 1e-12, "{}, cp {cp}, row {row}: {off:e}", model.name);
            }
        }
    }
}

#[test]
fn a_sequence_shorter_than_its_chunks_is_refused() {
    let error = launch(4, &Options::default(), |rank| {
        ContextParallel::new(Core::default(), rank.communicator(), &[100, 7])?;
        Ok::<_, Error>(())
    });
    let message = error.unwrap_err().to_string();
    assert!(message.contains("7 tokens") && message.contains("8 chunks"), "{message}");
}

#[test]
fn consecutive_chunks_would_give_the_last_rank_almost_twice_the_work_of_the_mean() {
    let (length, cp) = (32_768, 8);
    let consecutive = zigzag::pairs(std::slice::from_ref(&(length - length / cp..length)));
    let zigzag = zigzag::pairs(&zigzag::chunks_of_rank(length, cp, cp - 1));
    let ratio = consecutive as f64 / zigzag as f64;
    assert!((ratio - (2. - 1. / cp as f64)).abs() < 1e-3, "{ratio}");
}
