//! `cargo ch2` from the shell: documents, texts, exit codes, and one clear message for each bad input.
//!
//! [`Run`] starts the program and holds what it left; whatever it is asked for, it never panics. That N ranks compute what one device
//! does is tested in `tests/parity`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_usage;
mod costs;
mod replicas;
#[path = "../../../ch1-single-gpu/tests/program/shell.rs"]
mod shell;
mod tour;

use serde_json::Value;
use shell::{Run, program};
use std::path::{Path, PathBuf};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch2-data-parallel");

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
