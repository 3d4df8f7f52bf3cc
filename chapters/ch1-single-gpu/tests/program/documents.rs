//! What the subcommands compute and print.

use crate::models::{copy, fixture, with_text};
use crate::run;
use candle_core::{DType, Device};
use serde_json::Value;
use std::path::Path;

const FOLDERS: [&str; 3] = ["llama-gqa", "llama-sharded", "qwen2-tied"];

fn oracle(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name).join("oracle.json")).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn score_gives_the_loss_and_the_best_tokens_of_pytorch() {
    for name in FOLDERS {
        let oracle = oracle(name);
        let ids = oracle["input_ids"].to_string();
        let document = run("score", &fixture(name), &["--ids", &ids, "--dtype", "f64", "--json"]).document();
        let expected = number(&oracle["f64"]["loss"]);
        assert!(
            (number(&document["loss"]) - expected).abs() < 1e-9,
            "{name}: {}, expected {expected}",
            document["loss"]
        );
        assert_eq!(document["count"], 30, "{name}");
        for (row, sequence) in document["sequences"].as_array().unwrap().iter().enumerate() {
            assert_eq!(sequence["ids"], oracle["input_ids"][row], "{name}");
            assert_eq!(sequence["argmax"], oracle["argmax"][row], "{name}");
            assert_eq!(sequence["logprobs"].as_array().unwrap().len(), 15);
            let top = sequence["top"].as_array().unwrap();
            assert_eq!((top.len(), &top[0][0]), (5, &oracle["argmax"][row][15]), "{name}");
            assert!(top.windows(2).all(|pair| number(&pair[0][1]) >= number(&pair[1][1])), "{name}: {top:?}");
        }
    }
}

#[test]
fn gradients_gives_every_norm_and_saves_every_gradient_of_pytorch() {
    for name in FOLDERS {
        let oracle = oracle(name);
        let ids = oracle["input_ids"].to_string();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/new/folder/gradients.safetensors");
        let save = file.to_str().unwrap();
        let document =
            run("gradients", &fixture(name), &["--ids", &ids, "--dtype", "f64", "--json", "--save", save]).document();
        let near = |found: &Value, expected: &Value, tolerance: f64, what: &str| {
            let (found, expected) = (number(found), number(expected));
            assert!((found - expected).abs() <= tolerance * expected, "{name}, {what}: {found}, expected {expected}");
        };
        near(&document["loss"], &oracle["f64"]["loss"], 1e-9, "loss");
        near(&document["global_norm"], &oracle["f64"]["grad_global_norm"], 1e-9, "global norm");
        let theirs = oracle["grad_norms"].as_object().unwrap();
        let norms = document["norms"].as_object().unwrap();
        assert_eq!(norms.len(), theirs.len(), "{name}");
        theirs.iter().for_each(|(parameter, norm)| near(&norms[parameter], norm, 2e-5, parameter));

        let saved = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
        let full = candle_core::safetensors::load(fixture(name).join("oracle/full.safetensors"), &Device::Cpu).unwrap();
        assert_eq!(saved.len(), theirs.len(), "{name}");
        for (parameter, gradient) in &saved {
            let expected = full[&format!("grad.{parameter}")].to_dtype(DType::F64).unwrap();
            let squares = |t: &candle_core::Tensor| t.sqr().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap();
            let relative = (squares(&(gradient - &expected).unwrap()) / squares(&expected)).sqrt();
            assert!(relative < 2e-5, "{name}: {parameter} differs by {relative:e} of its norm");
        }
    }
}

fn score(model: &Path, ids: &str) -> Value {
    run("score", model, &["--ids", ids, "--dtype", "f64", "--json"]).document()
}

/// Padding, batching and order change nothing: a batch is the sum of its sequences.
#[test]
fn rows_of_unequal_length_are_scored_as_if_each_were_alone() {
    let model = fixture("llama-gqa");
    let rows = ["[5,9,200,17,31,8]", "[7]", "[250,3]", "[11,12,13]"];
    let together = score(&model, &format!("[{}]", rows.join(",")));
    assert_eq!(together["count"], 5 + 1 + 2);
    let mut sum = 0.;
    for row in [0, 2, 3] {
        let alone = score(&model, &format!("[{}]", rows[row]));
        sum += number(&alone["loss"]) * number(&alone["count"]);
        let (found, expected) = (&together["sequences"][row], &alone["sequences"][0]);
        assert_eq!(found["argmax"], expected["argmax"]);
        for (a, b) in found["logprobs"].as_array().unwrap().iter().zip(expected["logprobs"].as_array().unwrap()) {
            assert!((number(a) - number(b)).abs() < 1e-12, "{a} and {b}");
        }
    }
    assert!((number(&together["loss"]) - sum / 8.).abs() < 1e-12);
    assert_eq!(together["sequences"][1]["logprobs"], Value::Array(vec![]), "nothing follows a single token");

    let ids = format!("[{}]", rows.join(","));
    let gradients = run("gradients", &model, &["--ids", &ids, "--dtype", "f64", "--json"]).document();
    assert!((number(&gradients["loss"]) - number(&together["loss"])).abs() < 1e-12, "score and gradients agree");
    assert_eq!(gradients["count"], together["count"]);
}

#[test]
fn text_is_scored_and_has_gradients_as_its_ids_do() {
    let folder = with_text();
    let by_text = run("score", folder.path(), &["--prompt", "the dog ran", "--text", "a cat", "--json"]).document();
    let ids: Vec<&Value> = by_text["sequences"].as_array().unwrap().iter().map(|sequence| &sequence["ids"]).collect();
    let ids = serde_json::to_string(&ids).unwrap();
    assert_eq!(by_text, run("score", folder.path(), &["--ids", &ids, "--json"]).document());
    let shown = run("score", folder.path(), &["--text", "the dog ran"]).done();
    assert!(shown.contains("log p") && shown.contains("dog") && shown.contains("nats per token"), "{shown}");
    let shown = run("gradients", folder.path(), &["--text", "the dog ran"]).done();
    assert!(shown.contains("model.layers.1.mlp.down_proj.weight") && shown.contains("global norm"), "{shown}");
}

#[test]
fn a_layer_is_shown_with_its_split_points_and_every_formula_holds() {
    let document = run("layer", &fixture("qwen3"), &["--layer", "1", "--prompt-len", "7", "--batch", "2", "--json"]);
    let document = document.document();
    for (pass, rows) in [("prefill", 7), ("decode", 1)] {
        let steps = document[pass]["steps"].as_array().unwrap();
        let points: Vec<&str> = steps.iter().filter_map(|step| step["point"].as_str()).collect();
        let expected = [
            "Vocabulary::embed",
            "Boundary::enter(attention)",
            "Attend::attend",
            "Boundary::leave(attention)",
            "Boundary::enter(feed-forward)",
            "Boundary::leave(feed-forward)",
            "Vocabulary::logits",
        ];
        assert_eq!(points, expected);
        let products: Vec<&Value> = steps.iter().filter(|step| step["predicted"].is_object()).collect();
        assert_eq!(products.len(), 9);
        for step in products {
            assert_eq!((&step["flops"], &step["bytes"]), (&step["predicted"]["flops"], &step["predicted"]["bytes"]));
        }
        let q = steps.iter().find(|step| step["weight"] == "model.layers.1.self_attn.q_proj.weight").unwrap();
        assert_eq!((&q["shape"][0], &q["shape"][1]), (&2.into(), &rows.into()));
    }
    let shown = run("layer", &fixture("qwen3"), &[]).done();
    for part in ["┆ Attend::attend", "Boundary::leave(feed-forward) ──", "self_attn.k_proj", "Decode step", "✓"]
    {
        assert!(shown.contains(part), "{part:?} is missing\n{shown}");
    }
    assert!(!shown.contains('✗'), "{shown}");
    let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 120, "{widest} columns\n{shown}");
}

#[test]
fn generate_streams_the_text_of_its_document_and_a_batch_is_a_list() {
    let folder = with_text();
    let sampled = ["-n", "12", "--temperature", "0.9", "--seed", "3"];
    let arguments = |more: &[&'static str]| [&sampled[..], more].concat();
    let one = run("generate", folder.path(), &arguments(&["--prompt", "the dog", "--json"])).document();
    assert_eq!(one["ids"].as_array().unwrap().len(), 12);
    assert!(number(&one["prefill_seconds"]) > 0. && number(&one["decode_seconds"]) > 0.);
    let streamed = run("generate", folder.path(), &arguments(&["--prompt", "the dog"])).done();
    assert_eq!(streamed, format!("the dog{}\n", one["text"].as_str().unwrap()));
    let slow = run("generate", folder.path(), &arguments(&["--prompt", "the dog", "--json", "--no-kv-cache"]));
    assert_eq!(slow.document()["ids"], one["ids"], "the cache changes nothing");

    let prompts = ["--prompt", "the dog", "--prompt", "a little cat went home"];
    let batch = run("generate", folder.path(), &arguments(&[&prompts[..], &["--json"]].concat())).document();
    assert_eq!(batch.as_array().unwrap().len(), 2);
    assert_eq!(batch[0]["ids"], one["ids"], "a batch changes nothing");
    let shown = run("generate", folder.path(), &arguments(&prompts)).done();
    let [first, second] = [0, 1].map(|row| batch[row]["text"].as_str().unwrap());
    assert_eq!(shown, format!("the dog{first}\na little cat went home{second}\n"));
}

#[test]
fn figures_are_on_stderr_and_the_penalty_reaches_the_sampler() {
    let folder = with_text();
    let plain = run("generate", folder.path(), &["--prompt", "the dog", "-n", "30", "--json"]);
    assert!(plain.stderr.contains("prefill: ") && plain.stderr.contains("decode: 29 tokens"), "{plain}");
    let penalty = ["--prompt", "the dog", "-n", "30", "--json", "--repeat-penalty", "1e6"];
    let ids = run("generate", folder.path(), &penalty).document()["ids"].clone();
    let distinct: std::collections::HashSet<String> = ids.as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 30, "no token comes twice under a huge penalty: {ids}");
}

#[test]
fn a_prompt_of_spaces_and_a_prompt_of_many_characters_are_text_too() {
    let folder = with_text();
    let spaces = run("generate", folder.path(), &["--prompt", "   ", "-n", "2", "--json"]);
    assert_eq!(spaces.document()["ids"].as_array().unwrap().len(), 2);
    run("generate", folder.path(), &["--prompt", &"the dog ".repeat(1250), "-n", "2"])
        .fails(1, &["context is full", "512"]);
}

#[test]
fn its_help_says_which_subcommands_there_are() {
    let output = crate::program().arg("--help").output().unwrap();
    let shown = crate::Run::of("--help".into(), &output).done();
    for subcommand in ["generate", "score", "gradients", "layer"] {
        assert!(shown.contains(subcommand), "{shown}");
    }
}

/// An end-of-sequence list in `generation_config.json` counts, in either order.
#[test]
fn every_token_that_ends_a_sequence_ends_the_text() {
    let folder = with_text();
    let ids = |more: &[&str]| {
        let arguments = [&["--prompt", "the dog", "-n", "9", "--json"], more].concat();
        run("generate", folder.path(), &arguments).document()["ids"].as_array().unwrap().clone()
    };
    let all = ids(&[]);
    for list in [serde_json::json!([all[3], 0]), serde_json::json!([0, all[3]])] {
        let file = folder.path().join("generation_config.json");
        std::fs::write(file, serde_json::json!({"eos_token_id": list}).to_string()).unwrap();
        let end = all.iter().position(|id| *id == all[3]).unwrap();
        assert_eq!(ids(&[]), all[..=end], "eos {list}");
    }
}

#[test]
fn a_folder_without_a_tokenizer_is_scored_by_ids_and_says_why_it_takes_no_text() {
    let folder = copy();
    run("score", folder.path(), &["--ids", "[[1,2,3]]"]).done();
    run("score", folder.path(), &["--text", "the dog"]).fails(1, &["tokenizer.json"]);
}
