//! `generate`, `score`, `gradients`, `train` under every layout: documents and texts. That the numbers are one device's is tested in
//! `tests/parity`.

use crate::{number, rows, run, run_with};

#[test]
fn every_number_of_ranks_generates_scores_and_differentiates_as_one_does() {
    let texts = ["--prompt", "the dog ran home", "--prompt", "the bird"];
    let on = |tp: usize, command: &str, more: &str| run_with(&format!("{command} --tp {tp} {more} --json"), &texts);
    let ids = |tp| -> Vec<_> {
        let document = on(tp, "generate", "-n 8").document();
        document.as_array().unwrap().iter().map(|one| one["ids"].clone()).collect()
    };
    assert_eq!(ids(1), ids(4));
    for (command, more) in [("score", ""), ("gradients", ""), ("gradients", "--sequence-parallel --regather")] {
        let one = on(1, command, "--dtype f64").document();
        for tp in [2, 8] {
            let some = on(tp, command, &format!("--dtype f64 {more}")).document();
            assert_eq!(some["count"], one["count"], "{command} --tp {tp} {more}");
            assert!((number(&some["loss"]) - number(&one["loss"])).abs() < 1e-12, "{command} --tp {tp} {more}");
            let Some(norms) = one["norms"].as_object() else { continue };
            for (name, norm) in norms {
                let (found, expected) = (number(&some["norms"][name]), number(norm));
                assert!((found - expected).abs() <= 1e-9 * expected, "{name} --tp {tp} {more}: {found}, {expected}");
            }
        }
    }
}

/// A checkpoint of one layout is read under another, and the model is an ordinary folder at the end.
#[test]
fn a_run_goes_on_under_another_layout_with_the_losses_of_one_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let corpus = run("generate --tp 1 -n 400 --temperature 1 --prompt the").done().repeat(4);
    std::fs::write(path("corpus.txt"), corpus).unwrap();
    let job = format!("train --batch 3 --seq 16 --dtype f64 --lr-schedule constant --corpus {}", path("corpus.txt"));
    let one = run(&format!("{job} --tp 1 --steps 6 --out {} --json", path("one"))).document();
    run(&format!("{job} --tp 4 --steps 2 --out {} --json", path("run"))).done();
    let cut = "--tp 2 --sequence-parallel --steps 4 --resume";
    assert_eq!(run(&format!("{job} {cut} --out {} --json", path("run"))).document()["resumed_at"], 2);
    let saved = path("model");
    let last = run(&format!("{job} --tp 8 --steps 6 --resume --out {} --save {saved} --json", path("run"))).document();
    assert_eq!(last["resumed_at"], 4);
    for (a, b) in rows(&one, "losses").iter().zip(rows(&last, "losses")) {
        assert!((number(a) - number(b)).abs() < 1e-11, "{a} and {b}");
    }
    assert_eq!(rows(&last, "losses").len(), 6);
    for rank in rows(&last, "ranks") {
        assert_eq!((&rank["sent"], &rank["calls"]), (&rank["predicted_sent"], &rank["predicted_calls"]));
    }
    let ids =
        |tp: usize| run_with(&format!("generate --tp {tp} -n 4 --json --model {saved}"), &["--prompt", "the dog"]);
    assert_eq!(ids(1).document()["ids"], ids(2).document()["ids"]);
}

#[test]
fn a_rank_that_fails_in_training_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run").display().to_string();
    let failed = run(&format!("train --steps 4 --batch 2 --seq 8 --tp 4 --out {out} --inject-failure 3:1"));
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("step 1 fails") && failed.stderr.contains("error: training"), "{failed}");
}

#[test]
fn what_is_sent_and_held_is_what_was_predicted() {
    let counted = run("communication --tp 8 --sequence-parallel --json").document();
    for part in ["training", "decode"] {
        for row in counted[part]["comparison"].as_array().unwrap() {
            assert_eq!(row["predicted"], row["measured"], "{part}: {row}");
        }
    }
    let held = run("memory --json").document();
    let fits: Vec<_> = rows(&held, "training").iter().map(|row| row["fits"].as_bool().unwrap()).collect();
    assert_eq!(fits, [false, true, true, true], "what hit the wall of 64 MiB fits on two ranks");
    let case: Vec<_> = rows(&held, "case").iter().map(|row| row["fits"].as_bool().unwrap()).collect();
    assert_eq!(case, [false, false, false, true], "the recurring case fits on eight");
    let long = run("long --cp 3 --context 100 --json").document();
    for rank in rows(&long, "ranks") {
        assert_eq!(rank["sent_predicted"], rank["sent_counted"]);
    }
    let split = run("split --tp 4 --json").document();
    for block in split.as_array().unwrap() {
        let first = |values: &serde_json::Value| number(&values[0]);
        let sum: f64 = block["summands"].as_array().unwrap().iter().map(first).sum();
        assert!(
            (sum - first(&block["sum"])).abs() < 1e-6 && (sum - first(&block["one_device"])).abs() < 1e-5,
            "{block}"
        );
    }
}

#[test]
fn a_bug_that_is_asked_for_shows_in_the_gradients() {
    let norms = |with: &str| run(&format!("gradients --tp 2 --dtype f64 --json --with {with}")).document();
    let (right, wrong) = (norms("reference"), norms("bug:sum-norms-always"));
    let name = "model.norm.weight";
    let ratio = number(&wrong["norms"][name]) / number(&right["norms"][name]);
    assert!((ratio - 2.).abs() < 1e-9, "twice too large: {ratio}");
    assert_eq!(wrong["loss"], right["loss"], "and the loss does not show it");
}

#[test]
fn a_layer_is_drawn_with_every_weight_and_every_rank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("split.svg");
    let out = run_with("split --tp 4", &["--plot", path.to_str().unwrap()]).done();
    assert!(out.contains("split.svg"), "{out}");
    let picture = std::fs::read_to_string(path).unwrap();
    for text in ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "[384, 128]", "rank 3"] {
        assert!(picture.contains(text), "{text} is missing");
    }
}
