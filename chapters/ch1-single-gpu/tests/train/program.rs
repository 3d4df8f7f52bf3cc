//! The program under test, on a model so small that a run takes a second or two.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with a tiny model in it; runs go beside it.
pub(crate) struct Workplace(TempDir);

impl Workplace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let model = folder.path().join("model");
        std::fs::create_dir(&model).unwrap();
        let config = std::fs::read_to_string(root.join("tests/fixtures/tiny/llama-gqa/config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["vocab_size"] = 1024.into();
        std::fs::write(model.join("config.json"), config.to_string()).unwrap();
        std::fs::copy(root.join("assets/stories-1.9m/tokenizer.json"), model.join("tokenizer.json")).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `train` into the folder `out`, small unless `more` says otherwise.
    pub(crate) fn train(&self, out: &str, more: &str) -> Command {
        let mut command = program();
        command.arg("train").arg("--model").arg(self.path("model")).arg("--out").arg(self.path(out));
        command.args(["--cpu", "--json"]).args(more.split_whitespace());
        for (flag, value) in [("--random", "3"), ("--batch", "4"), ("--seq", "16")] {
            if !more.contains(flag) {
                command.args([flag, value]);
            }
        }
        command
    }

    /// The document of a run that must succeed.
    pub(crate) fn finish(&self, out: &str, more: &str) -> Value {
        let finished = self.train(out, more).output().unwrap();
        assert!(finished.status.success(), "{}", stderr(&finished));
        serde_json::from_slice(&finished.stdout).unwrap()
    }

    /// Lines of the metrics, one per step.
    pub(crate) fn steps(&self, out: &str) -> usize {
        std::fs::read_to_string(self.path(out).join("metrics.jsonl")).map_or(0, |text| text.lines().count())
    }
}

/// The program, on one thread.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ch1-single-gpu"));
    command.env("RAYON_NUM_THREADS", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// To the last digit.
#[track_caller]
pub(crate) fn assert_same(found: &Value, expected: &Value) {
    for key in ["steps", "losses", "norms", "tokens", "held_out_loss"] {
        assert!(!expected[key].is_null(), "{key}");
        assert_eq!(found[key], expected[key], "{key}");
    }
}

/// splitmix64 from a seed that is printed.
pub(crate) struct Generator(u64);

impl Generator {
    pub(crate) fn fresh() -> Self {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = time.as_nanos() as u64;
        println!("seed {seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
