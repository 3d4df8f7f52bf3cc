//! The bundled weights: a model that has learnt the stories.

use super::super::tokens;
use super::{fresh_seed, words};
use candle_core::{DType, Device};
use decoder::generation::{Options, Sampling, generate};
use decoder::source::Source;
use decoder::split::Split;
use decoder::{Context, Decoder};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use training::accumulation::evaluate;
use training::data::{Batches, TokenData};

/// Nats per token; a uniform guess would be ln 1024 = 6.93.
const LEARNT: f64 = 0.8;

fn bundled() -> (Source, Decoder) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets");
    let source = Source::resolve("stories-1.9m", None, &assets).unwrap();
    let weights = source.weights().unwrap();
    let config = source.config().unwrap();
    let model = Decoder::load(&config, &*weights, DType::F32, &Device::Cpu, &Split::whole()).unwrap();
    (source, model)
}

#[test]
fn the_bundled_model_predicts_stories_that_it_has_not_seen() {
    let (source, model) = bundled();
    let seed = fresh_seed();
    let ids = tokens(&source.tokenizer().unwrap(), Some(0), seed, 0, 4097).unwrap();
    let batches = Batches::new(Arc::new(TokenData::new(ids, 1024).unwrap()), 0, 16, 256).unwrap();
    let loss = evaluate(&model, &Context::inference(), [batches.batch(0)]).unwrap();
    println!("{:.4} nats per token over {} tokens of stories of seed {seed}", loss.mean(), loss.count);
    assert!(loss.mean() <= LEARNT, "{} nats per token, seed {seed}", loss.mean());
}

#[test]
fn the_dog_sat_and_the_story_goes_on_in_whole_sentences_of_known_words() {
    let (source, model) = bundled();
    let tokenizer = source.tokenizer().unwrap();
    let known: HashSet<String> = (0..3000)
        .flat_map(|index| words(&super::super::story(1, index)).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    for (temperature, seed) in [(0.0, 0), (0.7, 1), (0.7, 2)] {
        let sampling = Sampling { temperature, seed, ..Sampling::default() };
        let options = Options { sampling, max_tokens: 200, cache: true, stop_at_eos: true };
        let prompt = vec![tokenizer.encode("the dog", true).unwrap()];
        let made = generate(&model, &Context::inference(), &prompt, &options, |_, _| Ok(ControlFlow::Continue(())));
        let text = tokenizer.decode(&made.unwrap().ids[0], true).unwrap();
        if temperature == 0.0 {
            assert!(text.starts_with(" sat"), "{text}");
        }
        let sentences = text.matches(['.', '!', '?']).count();
        assert!(sentences >= 3 && text.ends_with(['.', '!', '?', '"']), "seed {seed}: {text}");
        let all = words(&text).count();
        let unknown: Vec<&str> = words(&text).filter(|word| !known.contains(*word)).collect();
        assert!(unknown.len() * 20 <= all, "seed {seed}: {unknown:?} of {all} words are in no story: {text}");
    }
}
