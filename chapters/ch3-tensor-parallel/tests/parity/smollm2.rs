//! A real model with nine heads on three ranks: the 32 recorded tokens of each prompt. Where the weights were not fetched, the test says
//! so and passes.

use super::models::{Model, workspace};
use super::ranks::on_ranks;
use candle_core::DType;
use decoder::Context;
use decoder::generation::{Options, generate};
use decoder::source::Source;
use serde_json::Value;
use std::ops::ControlFlow;

const GGUF: &str = "assets/downloads/smollm2-135m-instruct-q4_1.gguf";

#[test]
fn three_ranks_generate_the_recorded_tokens_of_smollm2() {
    let path = workspace().join(GGUF);
    if !path.exists() {
        eprintln!("SmolLM2 on three ranks: not tested, {GGUF} is not there; assets/fetch-smollm2.sh fetches it");
        return;
    }
    let source = Source::resolve(path.to_str().unwrap(), None, &path).unwrap();
    let model = Model { name: "SmolLM2".into(), config: source.config().unwrap(), weights: source.weights().unwrap() };
    let recorded = std::fs::read(workspace().join("tests/fixtures/smollm2/f32.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&recorded).unwrap();
    let ids = |value: &Value| -> Vec<u32> { serde_json::from_value(value.clone()).unwrap() };
    let prompts = recorded["prompts"].as_object().unwrap();
    let (given, expected): (Vec<_>, Vec<_>) =
        prompts.values().map(|prompt| (ids(&prompt["prompt_ids"]), ids(&prompt["generated_ids"]))).unzip();
    assert!(expected.iter().all(|ids| ids.len() == 32));
    let options = Options { max_tokens: 32, stop_at_eos: false, ..Options::default() };
    let ranks = on_ranks(&model, 3, None, |_, tensor| {
        let decoder = model.load(DType::F32, &tensor.split());
        let ctx = Context::inference().with_split(tensor.split());
        Ok(generate(&decoder, &ctx, &given, &options, |_, _| Ok(ControlFlow::Continue(())))?.ids)
    });
    for (rank, found) in ranks.iter().enumerate() {
        assert_eq!(*found, expected, "rank {rank}");
    }
}
