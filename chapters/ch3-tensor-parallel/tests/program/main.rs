//! `cargo ch3` from the shell: documents, texts, exit codes, and one clear message for each bad input.
//!
//! [`Run`] starts the program and holds what it left; whatever it is asked for, it never panics. That N ranks compute what one device
//! does is tested in `tests/parity`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_usage;
mod layouts;
mod tour;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A finished run.
struct Run {
    line: String,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ch3-tensor-parallel"));
    // Nothing of the caller's surroundings, and no network.
    command.env_remove("RUST_BACKTRACE").env("HF_HUB_OFFLINE", "1").env_remove("HF_ENDPOINT");
    command
}

/// Runs the words of `line`.
#[track_caller]
fn run(line: &str) -> Run {
    run_with(line, &[])
}

/// Runs the words of `line`, then `more`, whose words may have spaces.
#[track_caller]
fn run_with(line: &str, more: &[&str]) -> Run {
    let mut command = program();
    command.args(line.split_whitespace()).args(more);
    Run::of(format!("{line} {more:?}"), &command.output().unwrap())
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn rows<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    document[name].as_array().unwrap_or_else(|| panic!("no list {name:?} in {document}"))
}

impl Run {
    #[track_caller]
    fn of(line: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let run = Self { line, code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
        assert!(!run.stderr.contains("panicked") && !run.stderr.contains("backtrace"), "{run}");
        run
    }

    /// What a run that went well has on stdout.
    #[track_caller]
    fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{self}");
        self.stdout
    }

    /// The document of a run with `--json` that went well: all that stdout holds.
    #[track_caller]
    fn document(self) -> Value {
        let text = self.done();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    /// A run that must end with `code`, nothing on stdout, and one message that has all `words`.
    #[track_caller]
    fn fails(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self}");
        assert_eq!(self.stdout, "", "{self}");
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in: {self}");
        }
        assert_eq!(self.stderr.matches("error:").count(), 1, "one message: {self}");
        assert!(self.stderr.len() < 1500, "a message, not a dump: {self}");
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, code, stdout, stderr } = self;
        write!(f, "ch3 {line}: exit code {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
