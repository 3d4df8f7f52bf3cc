//! `generate`, `score`, `gradients`, `train`: documents and texts. The numbers are one device's: see `tests/parity`.

use crate::{number, rows, run, run_with, workspace};
use serde_json::Value;

#[test]
fn replicas_answer_score_and_differentiate_as_one_does() {
    let texts = ["--prompt", "the dog ran home", "--prompt", "the bird", "--prompt", "a girl and a boy"];
    let on = |dp: usize, command: &str, more: &str| run_with(&format!("{command} --dp {dp} {more} --json"), &texts);
    let generated = |dp| on(dp, "generate", "-n 6").document();
    let ids = |document: &Value| document.as_array().unwrap().iter().map(|one| one["ids"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&generated(1)), ids(&generated(3)));
    for command in ["score", "gradients"] {
        let one = on(1, command, "--dtype f64").document();
        for dp in [2, 3] {
            let some = on(dp, command, "--dtype f64").document();
            assert_eq!(some["count"], one["count"], "{command} --dp {dp}");
            assert!((number(&some["loss"]) - number(&one["loss"])).abs() < 1e-12, "{command} --dp {dp}");
        }
    }
}

#[test]
fn a_run_on_ranks_leaves_the_losses_of_one_device_and_says_what_it_sent() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let job = "--steps 3 --batch 5 --seq 16 --dtype f64";
    let one = run(&format!("train {job} --dp 1 --out {} --json", out("one"))).document();
    let three = run(&format!("train {job} --dp 3 --out {} --json", out("three"))).document();
    assert_eq!(rows(&three, "losses").len(), 3);
    for (a, b) in rows(&one, "losses").iter().zip(rows(&three, "losses")) {
        assert!((number(a) - number(b)).abs() < 1e-12, "{a} and {b}");
    }
    for rank in rows(&three, "ranks") {
        assert_eq!((&rank["sent"], &rank["calls"]), (&rank["predicted_sent"], &rank["predicted_calls"]));
    }
    assert_eq!(one["ranks"][0]["sent"], 0, "one rank has nobody to send to");
    let shown = run(&format!("train {job} --dp 2 --out {}", out("two"))).done();
    for part in ["2 ranks, ring", "✓ equal", "rank 1: bytes", "held by each"] {
        assert!(shown.contains(part), "{part:?} is missing\n{shown}");
    }
}

#[test]
fn a_rank_that_fails_is_named_and_the_run_goes_on_from_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let job = format!("train --steps 4 --batch 3 --seq 8 --dp 3 --out {}", folder.path().join("run").display());
    let failed = run(&format!("{job} --inject-failure 1:2"));
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("step 2 fails") && failed.stderr.contains("saved the state"), "{failed}");
    let resumed = run(&format!("{job} --resume --json"));
    assert!(resumed.stderr.contains("resuming after 2 steps"), "{resumed}");
    assert_eq!(resumed.document()["resumed_at"], 2);
    let again = run(&format!("{job} --resume")).done();
    assert!(again.contains("no step was taken") && !again.contains("a step takes"), "nothing was left to do\n{again}");
}

/// Every command that the lesson shows is one that the program has.
#[test]
fn the_lesson_shows_commands_that_there_are() {
    let lesson = std::fs::read_to_string(workspace().join("chapters/ch2-data-parallel/README.md")).unwrap();
    let help = run("--help").done();
    let commands: std::collections::BTreeSet<&str> = lesson
        .match_indices("cargo ch2 ")
        .filter_map(|(at, text)| lesson[at + text.len()..].split_whitespace().next())
        .collect();
    for command in commands.iter().filter(|word| word.chars().all(|letter| letter.is_ascii_lowercase())) {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "cargo ch2 {command}\n{help}");
    }
    for command in ["partition", "score", "gradients", "train", "generate", "scale", "memory"] {
        assert!(commands.contains(command), "{command} has no place in the lesson");
    }
}
