//! The sizes' commands from the shell: documents, errors, exit codes, a closed pipe.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn ch1(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ch1-single-gpu"));
    command.args(line.split_whitespace());
    command
}

fn output(line: &str) -> Output {
    ch1(line).output().unwrap()
}

fn document(line: &str) -> Value {
    let output = output(line);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn with_a_bug_the_program_predicts_what_the_bug_says_and_an_unknown_one_is_refused() {
    let predicted_and_measured = |with: &str| {
        let kv = document(&format!("kv --random 1 --context 16 --batch 2 --json {with}"));
        let bytes = |name: &str| kv["bytes"][0][name].as_u64().unwrap();
        (bytes("predicted"), bytes("measured"))
    };
    let (predicted, measured) = predicted_and_measured("--with reference");
    assert_eq!(predicted, measured);
    assert_eq!(predicted_and_measured("--with bug:cache-keys-only"), (predicted / 2, measured));
    let xw = document("xw --hidden 64 --rows 3 --json --with bug:product-multiply-add-once");
    assert_eq!(xw["rows"][0]["flops"].as_u64().unwrap() * 2, xw["rows"][0]["counted_flops"].as_u64().unwrap());
    let fewest =
        |with: &str| document(&format!("throughput --json {with}"))["rows"][0]["devices_for_a_month"].as_f64().unwrap();
    assert!(fewest("--with bug:devices-hours-for-days") > 10.0 * fewest(""));
    for (line, listed) in [("xw --with homework:1.1", "1.2, 1.4, 1.5, 1.9"), ("--with bug:x", "ridge-weights-only")] {
        let refused = output(line);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains("--with") && stderr.contains(listed), "{line}: {stderr}");
    }
}

#[test]
fn json_is_one_document_with_the_numbers_of_the_table() {
    let xw = document("xw --hidden 64 --rows 1,3 --json");
    assert_eq!(xw["rows"][1]["flops"], 2 * 3 * 64 * 64);
    assert_eq!(xw["rows"][1]["flops"], xw["rows"][1]["counted_flops"]);
    let kv = document("kv --random 1 --context 16 --batch 2 --json");
    assert_eq!(kv["bytes"][0]["predicted"], kv["bytes"][0]["measured"]);
    assert_eq!(kv["bytes_per_token"], 4096);
    let memory = document("memory --random 1 --context 16 --batch 1 --json");
    assert_eq!(memory["loaded"]["kinds"][0]["predicted"], memory["loaded"]["kinds"][0]["peak"]);
    let training = document("memory --training --random 1 --context 64 --batch 2 --json");
    let kinds = training["loaded"]["kinds"].as_array().unwrap();
    assert!(kinds.len() == 4 && kinds.iter().all(|kind| kind["peak"].as_u64().unwrap() > 0), "{kinds:?}");
    // The recurring case: 141 GB of weights, 215 GB of cache, five devices of 80 GB.
    let case = document("memory --model llama-3.1-70b --gpu h100 --json");
    assert_eq!(case["published"][0]["devices"], 5);
    assert_eq!(case["published"][0]["weights"], 2u64 * 70_553_706_496);
    let throughput = document("throughput --model gpt-3-175b --json");
    let flops = throughput["rows"][0]["flops"].as_f64().unwrap();
    assert!((flops / 3.14e23 - 1.0).abs() < 0.005, "{flops}");
}

#[test]
fn bad_usage_is_exit_code_2_and_says_what_would_be_legal() {
    for (line, reason) in [
        ("xw --hidden 0", "--in = 0"),
        ("xw --rows 1,0", "--rows = 0"),
        ("xw --rows -3", "unexpected argument"),
        ("xw --hidden 99999999999", "4 GiB"),
        ("xw --in 18446744073709551615 --out 18446744073709551615", "4 GiB"),
        ("xw --hidden 8 --gpu H1000", "H100"),
        ("xw --hidden 8 --plot roof.pdf", ".svg or .png"),
        ("kv --random 1 --context 0", "--context = 0"),
        ("kv --random 1 --batch 0", "--batch = 0"),
        ("kv --random 1 --context 513", "at most the model's 512"),
        ("memory --model Lama-3.1-70B", "Llama 3.1 70B"),
        ("memory --model llama-3.1-70b --gpu A10000", "A100"),
        ("memory --model llama-3.1-70b --context 0", "at least 1"),
        ("memory --model llama-3.1-70b --batch 0", "at least 1"),
        ("memory --model llama-3.1-70b --context 18446744073709551615", "64 bits"),
        ("memory --model llama-3.1-70b --context 18446744073709551615 --training", "64 bits"),
        ("memory --random 1 --context 1000000", "from 1 to the model's 512"),
        ("memory --random 1 --batch 18446744073709551615", "64 bits"),
        ("memory --training --random 1 --batch 18446744073709551615", "64 bits"),
        ("wall --device-memory 0", "64MiB"),
        ("wall --device-memory much", "not a size"),
        ("wall --batch 0", "--batch = 0"),
        ("wall --context 513", "from 1 to the model's context, 512"),
        ("wall --context 8 --prompt-len 9", "from 1 to the --context, 8"),
        ("wall --training --seq 513", "from 1 to the model's context, 512"),
        ("wall --training --context 8", "cannot be used with"),
        ("wall --seq 8", "--training"),
        ("wall --batch 18446744073709551615", "64 bits"),
        ("wall --batch 100000000", "8 GiB"),
        ("throughput --model GPT-5", "GPT-3 175B"),
        ("throughput --model gpt-2-124m", "--tokens"),
        ("throughput --tokens 0", "at least 1"),
        ("throughput --context 0", "at least 1"),
        ("throughput --utilisation 1.5", "at most 1"),
        ("throughput --utilisation -0.5", "at most 1"),
        ("throughput --gpu V100", "f16"),
    ] {
        let output = output(line);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(reason), "{line}: {stderr}");
        assert!(output.stdout.is_empty(), "{line}: nothing is printed before the check");
    }
}

#[test]
fn a_device_that_is_too_small_is_exit_code_1_and_one_message_with_the_ledger() {
    for (line, kind) in
        [("wall --device-memory 9MiB", "KV cache"), ("wall --training --device-memory 9MiB", "activations")]
    {
        let output = output(&format!("{line} --json"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
        for part in ["out of device memory", "9 MiB", "9437184 bytes", "weights", kind, "peak (MiB)", "hold less"] {
            assert!(stderr.contains(part), "{line}: {part} is missing in {stderr}");
        }
        assert!(
            !stderr.contains("panicked") && stderr.matches("out of device memory").count() == 1,
            "{line}: {stderr}"
        );
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn the_wall_is_found_where_it_was_predicted() {
    for line in ["wall --json --context 64", "wall --json --training --batch 2"] {
        let wall = document(line);
        let device = wall["kinds"].as_array().unwrap().last().unwrap();
        let predicted = device["predicted"].as_f64().unwrap();
        let smallest = wall["wall"]["smallest"]["measured"].as_f64().unwrap();
        assert!((smallest / predicted - 1.0).abs() <= 0.02, "{line}: {smallest} found, {predicted} predicted");
        assert!(wall["wall"]["message"].as_str().unwrap().contains("out of device memory"), "{line}");
        // The program itself, on a device of the size that it found; two runs differ by some bytes.
        let found = smallest as u64 + 4096;
        let fits = document(&format!("{line} --device-memory {found}B"));
        assert_eq!((&fits["device_memory"], fits["wall"].is_null()), (&Value::from(found), true), "{line}");
    }
}

#[test]
fn a_plot_that_cannot_be_written_fails_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let path = file.join("plot.svg").display().to_string();
    for line in [
        "xw --hidden 16 --rows 1",
        "kv --random 1 --context 8",
        "memory --model llama-2-7b",
        "throughput --model llama-2-7b",
    ] {
        let output = output(&format!("{line} --plot {path}"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
        assert!(stderr.contains(&file.display().to_string()), "{line}: {stderr}");
    }
}

#[test]
fn every_figure_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    for (index, line) in [
        "xw --hidden 16 --rows 1,9",
        "kv --random 1 --context 32 --figure flops",
        "kv --random 1 --context 32 --figure time",
        "kv --random 1 --context 32 --figure published",
        "memory --random 1",
        "memory --random 1 --model stories-1.9m",
        "memory --training --random 1",
        "memory --model llama-2-7b --training",
        "wall --context 64",
        "throughput",
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("new/{index}.svg"));
        let output = output(&format!("{line} --plot {}", path.display()));
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(std::fs::read_to_string(&path).unwrap().contains("</svg>"), "{line}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for line in ["memory --model llama-3.1-70b", "throughput --json", "kv --random 1 --context 8"] {
        let mut child = ch1(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn without_a_command_the_tour_stops_seven_times_in_100_columns_and_draws_four_figures() {
    let folder = tempfile::tempdir().unwrap();
    let output = output(&format!("--out {}", folder.path().join("new").display()));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for stop in 1..=7 {
        assert!(text.contains(&format!("\n{stop}. ")), "stop {stop} is missing\n{text}");
    }
    assert!(text.contains("→  \" sat\""), "the dog sits\n{text}");
    assert!(text.contains("✓ equal") && !text.contains('✗'), "what is counted is equal\n{text}");
    // The folder of the figures is the caller's and may be long.
    let long = text.lines().filter(|line| !line.starts_with("Figures")).find(|line| line.chars().count() > 100);
    assert_eq!(long, None);
    for name in ["xw", "kv", "memory", "throughput"] {
        let figure = std::fs::read_to_string(folder.path().join(format!("new/{name}.svg"))).unwrap();
        assert!(figure.contains("</svg>"), "{name}.svg");
    }
}

#[test]
fn the_tour_s_flags_do_not_mix_with_a_command_and_without_a_terminal_nothing_is_asked() {
    let mixed = output("--predict kv");
    assert_eq!(mixed.status.code(), Some(2), "{}", String::from_utf8_lossy(&mixed.stderr));
    let folder = tempfile::tempdir().unwrap();
    let mut command = ch1(&format!("--predict --out {}", folder.path().display()));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no terminal to ask on"));
}
