//! Generation as a loop over the decoder: what each row's text depends on, and when it ends.

use super::models::{Model, all, config, logits};
use candle_core::DType;
use decoder::generation::sampling::argmax;
use decoder::generation::{Generated, Options, Sampling, generate};
use decoder::{Context, Decoder, Error};
use serde_json::json;
use std::ops::ControlFlow;

fn run(decoder: &Decoder, prompts: &[Vec<u32>], options: &Options) -> Generated {
    generate(decoder, &Context::inference(), prompts, options, |_, _| Ok(ControlFlow::Continue(()))).unwrap()
}

/// 12 tokens, hot enough that different draws give different texts, whatever the end of a sequence.
fn sampled(seed: u64) -> Options {
    let sampling = Sampling { temperature: 3., seed, ..Sampling::default() };
    Options { sampling, max_tokens: 12, stop_at_eos: false, ..Options::default() }
}

fn greedy() -> Options {
    Options { max_tokens: 12, stop_at_eos: false, ..Options::default() }
}

#[test]
fn greedy_text_is_the_best_token_of_every_prefix_with_and_without_cache() {
    for model in all() {
        let decoder = model.load(DType::F64);
        let prompts = model.rows(&[5, 2]);
        let mut texts = prompts.clone();
        for _ in 0..12 {
            for text in &mut texts {
                let logits = logits(&decoder, std::slice::from_ref(text)).get(0).unwrap().get(text.len() - 1).unwrap();
                text.push(argmax(&logits.to_dtype(DType::F32).unwrap().to_vec1::<f32>().unwrap(), text.len()).unwrap());
            }
        }
        let expected: Vec<Vec<u32>> =
            texts.iter().zip(&prompts).map(|(text, prompt)| text[prompt.len()..].to_vec()).collect();
        for cache in [true, false] {
            let found = run(&decoder, &prompts, &Options { cache, ..greedy() });
            assert_eq!(found.ids, expected, "{}, cache {cache}", model.name);
            assert_eq!((found.steps, found.decoded()), (11, 22));
        }
    }
}

#[test]
fn a_seed_gives_one_text_and_another_seed_another() {
    for model in all() {
        let decoder = model.load(DType::F32);
        let prompts = model.rows(&[4]);
        let text = run(&decoder, &prompts, &sampled(7)).ids;
        assert_eq!(run(&decoder, &prompts, &sampled(7)).ids, text, "{}: the same object", model.name);
        assert_eq!(run(&model.load(DType::F32), &prompts, &sampled(7)).ids, text, "{}: a fresh object", model.name);
        let without_cache = Options { cache: false, ..sampled(7) };
        assert_eq!(run(&decoder, &prompts, &without_cache).ids, text, "{}: without cache", model.name);
        assert_ne!(run(&decoder, &prompts, &sampled(8)).ids, text, "{}", model.name);
    }
}

#[test]
fn rows_of_a_batch_draw_on_their_own() {
    for model in all() {
        let decoder = model.load(DType::F32);
        let prompt = model.rows(&[4]).remove(0);
        let batch = run(&decoder, &[prompt.clone(), prompt.clone(), prompt.clone()], &sampled(7)).ids;
        assert!(batch[0] != batch[1] && batch[1] != batch[2] && batch[0] != batch[2], "{}: {batch:?}", model.name);
        // Row r is the prompt alone with seed + r, whoever else is in the batch.
        for (row, text) in batch.iter().enumerate() {
            let alone = run(&decoder, std::slice::from_ref(&prompt), &sampled(7 + row as u64)).ids;
            assert_eq!(alone[0], *text, "{}, row {row}", model.name);
        }
    }
}

/// A copy of `model` whose sequences end with `eos`.
fn ending_with(model: &Model, eos: &[u32]) -> Decoder {
    let mut config = model.config.clone();
    config.eos = eos.to_vec();
    let split = decoder::split::Split::whole();
    Decoder::load(&config, &model.weights, DType::F32, &candle_core::Device::Cpu, &split).unwrap()
}

#[test]
fn an_end_token_ends_its_row_and_the_others_go_on() {
    let mut tried = 0;
    for model in all() {
        let prompts = model.rows(&[5, 3]);
        let free = run(&model.load(DType::F32), &prompts, &sampled(3)).ids;
        // A token that row 0 makes early and row 1 never.
        let Some(at) = (1..6).find(|&at| !free[1].contains(&free[0][at]) && !free[0][..at].contains(&free[0][at]))
        else {
            continue;
        };
        tried += 1;
        let decoder = ending_with(&model, &[free[0][at]]);
        for cache in [true, false] {
            let options = Options { stop_at_eos: true, cache, ..sampled(3) };
            let found = run(&decoder, &prompts, &options);
            assert_eq!(found.ids, [free[0][..=at].to_vec(), free[1].clone()], "{}, cache {cache}", model.name);
            assert_eq!((found.steps, found.decoded()), (11, at + 11));
        }
        let ignoring = run(&decoder, &prompts, &sampled(3)).ids;
        assert_eq!(ignoring, free, "{}: end tokens were to be ignored", model.name);
        // Any of several end tokens ends a row; when all rows have ended, generation ends.
        let both = ending_with(&model, &[free[1][0], free[0][at]]);
        let found = run(&both, &prompts, &Options { stop_at_eos: true, ..sampled(3) });
        assert_eq!(found.ids[1].len(), 1, "{}", model.name);
        assert!(found.ids[0].len() <= at + 1 && found.steps < at + 1, "{}: {found:?}", model.name);
    }
    assert!(tried >= 3, "only {tried} models made a token that suits; change the seed");
}

#[test]
fn tokens_are_heard_of_in_order_and_breaking_off_stops_after_the_step() {
    let model = &all()[1];
    let decoder = model.load(DType::F32);
    let prompts = model.rows(&[5, 3]);
    let mut heard = vec![Vec::new(); 2];
    let found = generate(&decoder, &Context::inference(), &prompts, &greedy(), |row, id| {
        heard[row].push(id);
        Ok(if heard[0].len() == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })
    .unwrap();
    assert_eq!(found.ids, heard);
    assert_eq!((found.ids[0].len(), found.steps), (4, 3));
    let complete = run(&decoder, &prompts, &greedy()).ids;
    assert_eq!(found.ids[0], complete[0][..4]);
    let error = generate(&decoder, &Context::inference(), &prompts, &greedy(), |_, _| {
        Err(Error::Tokenizer { problem: "the listener's own".into() })
    });
    assert!(matches!(error, Err(Error::Tokenizer { .. })));
}

#[test]
fn as_many_tokens_are_made_as_asked_for_and_as_the_context_has_room_for() {
    let model = &all()[0];
    let decoder = model.load(DType::F32);
    let context = model.config.context;
    for max_tokens in [0, 1, 5] {
        let found = run(&decoder, &model.rows(&[3]), &Options { max_tokens, ..greedy() });
        assert_eq!(found.ids[0].len(), max_tokens);
    }
    let full = run(&decoder, &model.rows(&[context - 2]), &Options { max_tokens: 2, ..greedy() });
    assert_eq!(full.ids[0].len(), 2);
    let options = Options { max_tokens: 3, ..greedy() };
    let prompts = model.rows(&[context - 2, 1]);
    let error = generate(&decoder, &Context::inference(), &prompts, &options, |_, _| panic!("computed before checked"));
    assert!(matches!(error, Err(Error::ContextLength { needed, .. }) if needed == context + 1));
}

#[test]
fn prompts_that_are_empty_or_outside_of_the_vocabulary_are_refused() {
    let model = Model::new("any", &json!({}));
    let decoder = model.load(DType::F32);
    let vocab = config(&json!({})).vocab as u32;
    for prompts in [vec![], vec![vec![]], vec![vec![1], vec![]], vec![vec![0, vocab]]] {
        let error =
            generate(&decoder, &Context::inference(), &prompts, &greedy(), |_, _| panic!("computed before checked"));
        assert!(matches!(error, Err(Error::Setting { name: "--prompt", .. })), "{prompts:?}");
    }
}
