//! `partition`, `scale`, `memory`: who holds and sends what, predicted and counted.

use crate::{number, rows, run};
use serde_json::Value;
use std::path::Path;

/// A picture was written.
fn drawn(path: &Path) {
    let length = std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).len();
    assert!(length > 1000, "{}: {length} bytes", path.display());
}

#[test]
fn a_product_divided_in_three_ways_is_the_whole_one_and_every_byte_is_predicted() {
    for (ranks, sizes, seed) in [(4, (64, 128, 256), 1), (3, (7, 5, 4), 2), (5, (2, 3, 2), 3), (1, (4, 4, 4), 4)] {
        let (rows_of_x, inputs, outputs) = sizes;
        let line =
            format!("partition --ranks {ranks} --rows {rows_of_x} --in {inputs} --out {outputs} --seed {seed} --json");
        let document = run(&line).document();
        let cuts = rows(&document, "cuts");
        assert_eq!(cuts.len(), 3, "{line}");
        for cut in cuts {
            assert_eq!(cut["equal"], true, "{line}: {}", cut["divided"]);
            assert!(number(&cut["difference"]) < 1e-5, "{line}: {cut}");
            assert_eq!(rows(cut, "ranks").len(), ranks, "{line}");
            for rank in rows(cut, "ranks") {
                assert_eq!(rank["sent"], rank["predicted_sent"], "{line}: {cut}");
                assert_eq!(rank["held_as_predicted"], true, "{line}: {cut}");
            }
            let flops: u64 = rows(cut, "ranks").iter().map(|rank| rank["flops"].as_u64().unwrap()).sum();
            assert_eq!(flops, 2 * (rows_of_x * inputs * outputs) as u64, "{line}: the product is computed once");
        }
        assert!(cuts[0]["forward"].is_null(), "data parallelism sends nothing in the forward");
        assert_eq!(cuts[0]["backward"], "all-reduce of dW");
        assert_eq!(cuts[2]["forward"], "all-reduce of Y");
        assert!(cuts[2]["backward"].is_null());
    }
    // The lesson's worked number: 2 · 128 · 256 · 4 bytes · 3/4.
    let document = run("partition --json").document();
    assert_eq!(document["cuts"][0]["ranks"][0]["sent"], 196_608);
}

/// `--with` reaches the runs: what a mistake does is seen in values, or in bytes.
#[test]
fn a_typical_mistake_is_seen_in_the_values_or_in_the_bytes() {
    let document = run("partition --rows 7 --with bug:rows-rank-ignored --json").document();
    let equal: Vec<&Value> = rows(&document, "cuts").iter().map(|cut| &cut["equal"]).collect();
    assert_eq!(equal, [false, true, true], "only X by rows is cut by the exercise");
    let document = run("scale --most 4 --seq 4 --with bug:gradients-gathered --json").document();
    let four = rows(&document["runs"], "rows").iter().find(|row| row["ranks"] == 4).unwrap();
    assert_eq!(four["sent_as_predicted"], false, "the sum is right, but p times the bytes are sent: {four}");
    run("memory --with bug:no-such-mistake").fails(2, &["--with bug:no-such-mistake", "gradients-gathered"]);
}

#[test]
fn a_divided_product_is_drawn_as_text_and_as_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/partition.svg");
    let shown = run(&format!("partition --ranks 9 --rows 9 --plot {}", file.display())).done();
    for part in
        ["X by rows", "W by columns", "W by rows", "a summand", "… 8", "all-reduce of dW", "✓ equal, bit by bit"]
    {
        assert!(shown.contains(part), "{part:?} is missing\n{shown}");
    }
    assert!(!shown.contains('✗'), "{shown}");
    drawn(&file);
    assert!(std::fs::read_to_string(&file).unwrap().contains("all-reduce of dW"));
}

/// The clock's step is the formula's over every link, and bytes and calls of every rank are equal.
#[test]
fn a_step_takes_what_the_formula_says_over_every_link_and_between_nodes() {
    let line = "scale --most 8 --seq 8 --ranks-per-node 4 --json";
    let document = run(line).document();
    let runs = rows(&document["runs"], "rows");
    assert_eq!(runs.len(), 5 * 4, "five ways to join 1, 2, 4 and 8 ranks");
    for row in runs {
        let (predicted, step) = (number(&row["predicted_step"]), number(&row["step"]));
        assert!((step / predicted - 1.0).abs() < 0.01, "{line}: {row}");
        assert_eq!(row["sent_as_predicted"], true, "{row}");
        assert_eq!(row["sent"], row["predicted_sent"], "{row}");
        let efficiency = number(&row["efficiency"]);
        assert!(efficiency > 0.0 && efficiency <= 1.0, "{row}");
    }
    let at = |link: &str, ranks: u64| {
        runs.iter().find(|row| row["link"] == link && row["ranks"] == ranks).unwrap_or_else(|| panic!("no {link}"))
    };
    let step = |link, ranks| number(&at(link, ranks)["step"]);
    assert!(step("NVLink", 8) < step("PCIe", 8) && step("PCIe", 8) < step("Ethernet", 8));
    assert_eq!(step("nodes of 4", 4), step("NVLink", 4), "one node is joined by NVLink");
    assert!((step("nodes of 4", 8) / step("InfiniBand", 8) - 1.0).abs() < 0.01, "two by their slowest hop");
    assert_eq!(document, run(line).document(), "the same again: nothing depends on the machine");
}

/// Bytes and FLOPs both grow with the parameters.
#[test]
fn the_break_even_of_a_published_model_does_not_depend_on_its_size() {
    let even = |model: &str| {
        let document = run(&format!("scale --model {model} --json")).document();
        assert!(document["runs"].is_null());
        let links = rows(&document["published"][0], "links").to_vec();
        let infiniband = links.iter().find(|row| row["link"] == "InfiniBand").unwrap();
        number(&infiniband["break_even"])
    };
    let (small, large) = (even("llama-3-8b"), even("llama-3.1-70b"));
    assert!((small / large - 1.0).abs() < 0.01, "{small} and {large}");
    // 2/3 · 494.5e12 FLOP/s / 50e9 bytes/s · 63/64.
    assert!((large / 6490.0 - 1.0).abs() < 0.01, "{large}");
}

#[test]
fn the_cpu_clock_says_that_it_claims_nothing_about_gpus() {
    let shown = run("scale --most 2 --seq 8 --clock cpu").done();
    assert!(shown.contains("CPU time of this machine") && shown.contains("nothing is said about GPUs"), "{shown}");
}

#[test]
fn efficiency_is_drawn_for_runs_and_for_published_models() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flags) in [("run.svg", "--most 2 --seq 4"), ("published.png", "--model llama-3-8b")] {
        let file = folder.path().join(name);
        let shown = run(&format!("scale {flags} --plot {}", file.display())).done();
        assert!(shown.contains("efficiency") || shown.contains("break-even"), "{shown}");
        assert!(!shown.contains('✗'), "{shown}");
        drawn(&file);
    }
}

fn bytes(row: &Value, kind: &str, which: &str) -> u64 {
    let kinds = rows(row, "kinds");
    let found = kinds.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {row}"));
    found[which].as_u64().unwrap_or_else(|| panic!("{kind} of {row} was not measured"))
}

#[test]
fn only_the_activations_shrink_with_the_ranks_predicted_and_measured() {
    let document = run("memory --batch 4 --seq 64 --dp 1,2,4 --json").document();
    let runs = rows(&document["runs"], "rows");
    for kind in ["weights", "gradients", "optimiser"] {
        for row in runs {
            assert_eq!(bytes(row, kind, "predicted"), bytes(&runs[0], kind, "predicted"), "{kind}");
            let ratio = bytes(row, kind, "peak") as f64 / bytes(row, kind, "predicted") as f64;
            assert!((ratio - 1.0).abs() < 0.02, "{kind}: {ratio}");
        }
    }
    for pair in runs.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|row| bytes(row, "activations", "peak") as f64);
        assert!((after / before - 0.5).abs() < 0.02, "half the rows, half the activations: {before}, {after}");
    }
    for row in runs {
        let (predicted, peak) = (number(&row["device"]["predicted"]), number(&row["device"]["peak"]));
        assert!((peak / predicted - 1.0).abs() < 0.02, "{row}");
    }
    // 16 bytes per parameter.
    let floor = document["runs"]["floor"].as_u64().unwrap();
    assert!((floor as f64 / (16.0 * 1_837_184.0) - 1.0).abs() < 0.01, "{floor}");
    // The recurring case: 141 GB on each GPU whatever dp, and two replicas of four H100.
    let training = rows(&document["training"], "rows");
    assert!(training.iter().all(|row| row["weights"] == 2u64 * 70_553_706_496), "{training:?}");
    let two = rows(&document["case"], "rows").iter().find(|row| row["replicas"] == 2).unwrap();
    assert_eq!((&two["devices_each"], &two["devices"]), (&4.into(), &8.into()));
}

#[test]
fn a_device_that_is_too_small_stays_too_small_with_any_number_of_ranks() {
    let job = "memory --batch 4 --seq 64 --dp 1,4";
    run(&format!("{job} --device-memory 24MiB"))
        .fails(1, &["out of device memory", "24 MiB", "optimiser", "every rank holds the whole model"]);
    // Where only the activations are too many, ranks help.
    let document = run(&format!("{job} --device-memory 36MiB --json")).document();
    let fits: Vec<&Value> = rows(&document["runs"], "rows").iter().map(|row| &row["fits"]).collect();
    assert_eq!(fits, [&Value::Bool(false), &Value::Bool(true)]);
    let shown = run(&format!("{job} --device-memory 36MiB")).done();
    assert!(shown.contains("out of memory") && shown.contains("a device of 36 MiB, 1 rank"), "{shown}");
}

#[test]
fn what_a_rank_holds_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flags) in [("run.svg", "--batch 2 --seq 8 --dp 1,2"), ("published.png", "--model llama-3.1-70b")] {
        let file = folder.path().join(name);
        let shown = run(&format!("memory {flags} --plot {}", file.display())).done();
        assert!(!shown.is_empty());
        drawn(&file);
    }
}
