//! `cargo ch1` from the shell: documents, texts, exit codes, and one clear message for each bad input.
//!
//! [`Run`] starts the program and holds what it left; whatever it is asked for, it never panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_models;
mod bad_usage;
mod documents;
mod models;
mod pipes;
mod shell;

use shell::{Run, program};
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch1-single-gpu");

/// Runs `subcommand --model model arguments`.
#[track_caller]
fn run(subcommand: &str, model: &Path, arguments: &[&str]) -> Run {
    let model = model.to_str().unwrap();
    let mut command = program();
    command.arg(subcommand).args(["--model", model]).args(arguments);
    Run::of(format!("{subcommand} --model {model} {arguments:?}"), &command.output().unwrap())
}
