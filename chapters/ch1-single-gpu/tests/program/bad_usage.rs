//! Flags that have no meaning end with exit code 2 and say what would be legal.

use crate::models::{fixture, with_text};
use crate::run;

#[test]
fn sampling_without_meaning_is_refused() {
    let folder = with_text();
    for (arguments, words) in [
        (&["--top-k", "0"][..], &["--top-k = 0", "from 1 up"][..]),
        (&["--top-p", "0"], &["--top-p = 0", "at most 1"]),
        (&["--top-p", "1.5"], &["--top-p = 1.5"]),
        (&["--temperature", "-1"], &["--temperature = -1", "from 0 up"]),
        (&["--temperature", "nan"], &["--temperature = NaN"]),
        (&["--repeat-penalty", "0"], &["--repeat-penalty = 0"]),
        (&["--sample-len", "0"], &["--sample-len 0", "from 1 up"]),
        (&["--sample-len", "many"], &["--sample-len", "many"]),
        (&["--prompt", ""], &["--prompt", "give some text"]),
    ] {
        run("generate", folder.path(), arguments).fails(2, words);
    }
}

#[test]
fn ids_that_are_none_are_refused() {
    let model = fixture("llama-gqa");
    for (ids, words) in [
        ("[[1,2,3]", &["--ids", "JSON list of lists"][..]),
        ("1,2,3", &["--ids", "[[1,2,3],[4,5,6]]"]),
        ("[1,2,3]", &["--ids", "[[1,2,3],[4,5,6]]"]),
        ("[[1,-2]]", &["--ids"]),
        ("[[1,2.5]]", &["--ids"]),
        ("[[1,4294967296]]", &["--ids"]),
        ("[]", &["--ids", "at least one"]),
        ("[[1,2],[]]", &["--ids", "sequence 1"]),
        ("[[1],[2]]", &["--ids", "at least two tokens"]),
        ("[[1,256,3]]", &["--ids", "id 256", "0 to 255"]),
        ("[[1,4294967295]]", &["--ids", "id 4294967295"]),
    ] {
        for subcommand in ["score", "gradients"] {
            run(subcommand, &model, &["--ids", ids]).fails(2, words);
        }
    }
    let long = format!("[[{}1]]", "1,".repeat(128));
    run("score", &model, &["--ids", &long]).fails(2, &["129 tokens", "128"]);
    run("score", &model, &["--ids", "[[1,2]]", "--prompt", "text"]).fails(2, &["cannot be used with"]);
}

#[test]
fn a_layer_that_is_not_there_is_refused() {
    let model = fixture("llama-gqa");
    run("layer", &model, &["--layer", "4"]).fails(2, &["--layer 4", "0 to 3"]);
    run("layer", &model, &["--prompt-len", "0"]).fails(2, &["--prompt-len 0", "1 to 127"]);
    run("layer", &model, &["--prompt-len", "128"]).fails(2, &["--prompt-len 128", "1 to 127"]);
    run("layer", &model, &["--batch", "0"]).fails(2, &["--batch 0"]);
}

#[test]
fn devices_and_types_that_are_not_there_are_refused() {
    let model = fixture("llama-gqa");
    let ids = ["--ids", "[[1,2]]"];
    let with = |more: &[&'static str]| [&ids[..], more].concat();
    run("score", &model, &with(&["--dtype", "int8"])).fails(2, &["int8", "bf16"]);
    run("score", &model, &with(&["--device", "tpu"])).fails(2, &["tpu", "cuda:INDEX"]);
    run("score", &model, &with(&["--cpu", "--device", "cuda"])).fails(2, &["cannot be used with"]);
    if !candle_core::utils::cuda_is_available() {
        run("score", &model, &with(&["--device", "cuda"])).fails(2, &["--device cuda:0", "--features cuda"]);
    }
    run("scores", &model, &[]).fails(2, &["scores"]);
    run("score", &model, &with(&["--revision", "main"])).fails(2, &["revision", "local"]);
}
