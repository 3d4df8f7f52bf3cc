//! `kill -9` at random moments of `train`: the run is always resumable, and ends with the losses of one that was left alone.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const KILLS: u32 = 20;
const STEPS: &str = "120";

/// A run in `out` of a tiny model on tiny batches, with a checkpoint after each second step: much of the time it is saving.
fn train(out: &Path, more: &[&str]) -> Command {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny/llama-gqa");
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/stories-1.9m/tokenizer.json");
    let model = out.with_file_name("model");
    if !model.exists() {
        std::fs::create_dir(&model).unwrap();
        let config = std::fs::read_to_string(Path::new(fixtures).join("config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["vocab_size"] = 1024.into();
        std::fs::write(model.join("config.json"), config.to_string()).unwrap();
        std::fs::copy(tokenizer, model.join("tokenizer.json")).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ch1-single-gpu"));
    command.arg("train").arg("--model").arg(model).arg("--out").arg(out);
    command.args("--random 3 --cpu --batch 4 --seq 16 --checkpoint-every 2 --warm-up 3 --json --steps".split(' '));
    command.arg(STEPS).args(more).env("RAYON_NUM_THREADS", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(out: &Path, more: &[&str]) -> Value {
    let finished = train(out, more).output().unwrap();
    let stderr = String::from_utf8_lossy(&finished.stderr);
    assert!(finished.status.success(), "{stderr}");
    serde_json::from_slice(&finished.stdout).unwrap()
}

#[test]
fn a_run_killed_20_times_ends_with_the_losses_of_one_left_alone() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let start = Instant::now();
    let expected = finish(&whole, &[]);
    let duration = start.elapsed();

    let mut random = seed;
    let (mut progress, mut damaged) = (Vec::new(), 0);
    let mut killed = folder.path().join("killed-0");
    for kill in 0..KILLS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = train(&killed, &["--resume"]).spawn().unwrap();
        // Short of the whole run, so that it takes many lives.
        std::thread::sleep(duration.mul_f64(0.4 * (random >> 11) as f64 / (1u64 << 53) as f64));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("error"), "kill {kill}: {stderr}");
        damaged += u32::from(stderr.contains("not used"));
        progress.push(steps(&killed));
        // Done before it could be killed: another run.
        if output.status.success() {
            compare(&finish(&killed, &["--resume"]), &expected);
            killed = folder.path().join(format!("killed-{}", kill + 1));
        }
    }
    println!("steps in the metrics after each kill: {progress:?}; half-written checkpoints found: {damaged}");
    compare(&finish(&killed, &["--resume"]), &expected);
}

fn steps(out: &Path) -> usize {
    std::fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// To the last digit.
fn compare(found: &Value, expected: &Value) {
    for key in ["steps", "losses", "norms", "tokens", "held_out_loss"] {
        assert_eq!(found[key], expected[key], "{key}");
        assert!(!expected[key].is_null(), "{key}");
    }
}
