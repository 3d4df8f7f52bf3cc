//! The program from the shell: documents, figures, bad input, exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn output(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ch4-pipeline-parallel")).args(line.split_whitespace()).output().unwrap()
}

fn document(line: &str) -> Value {
    let output = output(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn simulate_prints_the_published_rate_and_the_peaks() {
    let found = document(
        "simulate --kind zb-h1 --stages 8 --micro-batches 24 --forward 18.522 --input-gradient 18.086 --weight-gradient 9.337 \
         --send 0.601 --json",
    );
    assert!((number(&found["bubble"]) - 0.1585).abs() < 1e-4, "{found}");
    assert_eq!(found["peak_in_flight"], serde_json::json!([8, 7, 6, 5, 4, 3, 2, 1]));
    assert!(number(&found["makespan"]) >= number(&found["cost"]));
    let dual = document("simulate --kind dualpipe --stages 8 --micro-batches 20 --together 3 --json");
    assert_eq!(number(&dual["cost"]), 20.0 * 3.0 + 6.0);
}

#[test]
fn a_schedule_is_drawn_traced_saved_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (plot, trace, saved) = (at("a.svg"), at("new/trace.json"), at("new/mine.json"));
    let found = document(&format!(
        "schedule --kind zb-h1 --stages 4 --micro-batches 8 --seq 16 --plot {plot} --trace {trace} --save {saved} --json"
    ));
    assert!((number(&found["formula"]) - 1.0 / 9.0).abs() < 1e-12, "{found}");
    let run = &found["run"];
    assert!((number(&run["bubble"]) - number(&run["simulated_bubble"])).abs() < 1e-9);
    assert_eq!(run["peak_in_flight"], found["peak_in_flight"]);
    assert!(std::fs::read_to_string(&plot).unwrap().contains("weight gradient"));
    let events: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    let spans = events["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(spans, 4 * 8 * 3);
    let again = document(&format!("schedule --kind {saved} --stages 4 --micro-batches 8 --no-run --json"));
    assert_eq!(again["bubble"], found["bubble"]);
    assert!(again["run"].is_null());
}

#[test]
fn four_stages_score_differentiate_and_generate_as_one_device() {
    let one = document("score --pp 1 --dtype f64 --json");
    for pp in [3, 8] {
        let several = document(&format!("score --pp {pp} --dtype f64 --json"));
        assert!((number(&several["loss"]) - number(&one["loss"])).abs() < 1e-12);
        assert_eq!(several["sequences"][0]["argmax"], one["sequences"][0]["argmax"]);
    }
    let one = document("gradients --pp 1 --micro-batches 1 --dtype f64 --json");
    let several = document("gradients --pp 4 --schedule zb-v --dtype f64 --json");
    assert!((number(&several["global_norm"]) / number(&one["global_norm"]) - 1.0).abs() < 1e-9);
    assert_eq!(several["norms"].as_object().unwrap().len(), one["norms"].as_object().unwrap().len());
    let wrong = document("gradients --pp 4 --dtype f64 --json --with bug:loss-mean-of-micro-batch");
    assert!(number(&wrong["global_norm"]) > 2.0 * number(&one["global_norm"]), "the bug is at work");
    let one = document("generate --pp 1 -n 16 --json");
    let several = document("generate --pp 4 -n 16 --json");
    assert_eq!((&several["ids"], &several["text"]), (&one["ids"], &one["text"]));
    let batch = document("generate --pp 4 -n 5 --prompt a --prompt the --prompt once --json");
    assert_eq!(batch.as_array().unwrap().len(), 3);
}

#[test]
fn training_says_what_each_stage_held_and_goes_on_with_other_stages() {
    let folder = tempfile::tempdir().unwrap();
    let run = |pp: usize, more: &str| {
        let out = folder.path().join("run").display().to_string();
        format!(
            "train --pp {pp} --steps 4 --batch 4 --seq 16 --lr-schedule constant --dtype f64 --out {out} --json {more}"
        )
    };
    let first = document(&run(4, "--micro-batches 4"));
    assert_eq!((first["pp"].as_u64(), first["schedule"].as_str()), (Some(4), Some("1f1b")));
    for (stage, rank) in first["ranks"].as_array().unwrap().iter().enumerate() {
        assert_eq!(rank["peak_in_flight"], rank["predicted_peak_in_flight"], "stage {stage}");
        assert_eq!(rank["loss"], stage == 3, "only the last stage has a loss");
        assert!(rank["device_peak"].as_u64().unwrap() > 0);
    }
    let refused = output(&run(4, "--micro-batches 4"));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--resume"), "nothing is overwritten unasked");
    let again = document(&run(2, "--micro-batches 4 --schedule gpipe --resume"));
    assert_eq!(again["pp"], 2);
    assert!(Path::new(&folder.path().join("run/loss.svg")).exists());
    let failed = output(&run(4, "--micro-batches 4 --overwrite --inject-failure 2:1"));
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("step 1 fails"));
}

#[test]
fn bad_input_is_bad_usage_and_says_what_is_legal() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.json");
    std::fs::write(&bad, r#"{"micro_batches":2,"stages":[["F0","B0","F1","B1"],["F0","F1","B0","B1"]]}"#).unwrap();
    let fine = folder.path().join("fine.json");
    std::fs::write(&fine, r#"{"micro_batches":1,"stages":[["F0","B0"],["F0","B0"]]}"#).unwrap();
    let (bad, fine) = (bad.display(), fine.display());
    let mine = |line: &str| format!("{line} --out {}", folder.path().join("never").display());
    for (line, part) in [
        (mine("train --pp 9"), "at most 8 stages"),
        (mine("train --pp 0"), "at least 1 stage"),
        (mine("train --pp 2 --micro-batches 0"), "1 to the 16 of the batch"),
        (mine("train --pp 2 --micro-batches 17"), "1 to the 16 of the batch"),
        (mine("train --pp 4 --schedule interleaved --micro-batches 2"), "4 are a multiple of 4"),
        (mine("train --pp 2 --schedule dualpipe --micro-batches 4"), "timed only"),
        (mine("train --pp 3 --layers 4,4"), "one per chunk, 3"),
        (mine("train --pp 3 --layers 4,4,1"), "--layers 4,4,1: 8 layers"),
        (format!("schedule --kind {bad} --stages 2 --micro-batches 2"), "stage 0 waits in B0"),
        (format!("schedule --kind {fine} --stages 3 --micro-batches 2"), "give --pp 2 and --micro-batches 1"),
        (format!("simulate --kind {fine} --stages 2 --micro-batches 1 --chunks 2"), "has 1 per stage"),
        ("schedule --kind nonsense".to_owned(), "naive, gpipe, 1f1b"),
        ("simulate --micro-batches 0".to_owned(), "at least 1 micro-batch"),
        ("simulate --forward -1".to_owned(), "from 0 to"),
        ("simulate --forward 0 --input-gradient 0 --weight-gradient 0".to_owned(), "takes time"),
        ("simulate --together 2".to_owned(), "only dualpipe"),
        ("simulate --stages 18446744073709551615 --micro-batches 18446744073709551615".to_owned(), "forwards"),
        ("simulate --kind zb-v --stages 100000 --micro-batches 1".to_owned(), "forwards"),
        ("simulate --kind interleaved --chunks 18446744073709551615".to_owned(), "forwards"),
        ("schedule --micro-batches 2000".to_owned(), "--no-run"),
        ("compare --micro-batches 0".to_owned(), "--micro-batches 0: from 1"),
        ("compare --batch 18446744073709551615".to_owned(), "--batch 18446744073709551615: from 1 to 65536"),
        ("kv --batch 0".to_owned(), "--batch 0: from 1"),
        ("kv --batch 18446744073709551615".to_owned(), "--batch 18446744073709551615"),
        ("kv --context 513".to_owned(), "--context 513: from 1 to 512"),
        (mine("train --inject-failure 0:100"), "a step from 0 to 99"),
        ("simulate --kind gpipe --chunks 3".to_owned(), "interleaved takes any number"),
        ("generate --pp 9".to_owned(), "at most 8 stages"),
        ("generate --pp 2 --in-flight 2".to_owned(), "1 prompts"),
        ("kv --ranks 9".to_owned(), "8 layers"),
        ("simulate --plot a.pdf".to_owned(), ".svg or .png"),
        ("simulate --with bug:x".to_owned(), "order-gpipe"),
    ] {
        let found = output(&line);
        let stderr = String::from_utf8_lossy(&found.stderr);
        assert_eq!(found.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(part), "{line}: {part:?} is missing\n{stderr}");
    }
}

#[test]
fn the_tour_and_the_comparison_end_well() {
    let folder = tempfile::tempdir().unwrap();
    let tour = output(&format!("--out {}", folder.path().join("tour").display()));
    let text = String::from_utf8_lossy(&tour.stdout);
    assert!(tour.status.success(), "{}", String::from_utf8_lossy(&tour.stderr));
    for part in ["1. Which layers", "27.3 %", "✓ equal", "25.0 %", "Answer"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains('✗'), "{text}");
    let rows = document("compare --pp 2 --micro-batches 4 --seq 128 --json");
    assert_eq!(rows.as_array().unwrap().len(), 7);
    for row in rows.as_array().unwrap() {
        assert!((number(&row["bubble"]) - number(&row["predicted_bubble"])).abs() < 1e-9, "{row}");
        assert_eq!(row["messages"], row["predicted_messages"], "{row}");
        assert!(number(&row["gradient_difference"]) < 1e-5, "{row}");
        let measured = number(&row["activations"]) / number(&row["predicted_activations"]);
        assert!((measured - 1.0).abs() < 0.03, "{measured} of the predicted bytes: {row}");
    }
    let kv = document("kv --ranks 4 --json");
    assert_eq!(kv["by_layer"]["bytes"], kv["by_head"]["bytes"]);
    let stages = document("stages --pp 3 --json");
    assert_eq!(stages["stages"][2]["head"], true);
}
