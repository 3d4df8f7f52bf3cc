//! What a program looks like from outside. Without arguments this runs the checks; with one, it is a program that uses
//! [`lab::program::run`], started by the checks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use anyhow::Context;
use lab::program::{self, Output};
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::process::{Command, ExitCode, Output as Finished, Stdio};

fn main() -> ExitCode {
    match std::env::args().nth(1).filter(|argument| argument.starts_with("act:")) {
        Some(act) => program::run(|out| play(&act, out)),
        None => {
            exit_codes_tell_bad_usage_from_a_failed_run();
            a_reader_that_goes_away_is_no_error();
            threads_are_set_before_any_is_started();
            ExitCode::SUCCESS
        }
    }
}

/// The program under test.
fn play(act: &str, out: &mut Output) -> anyhow::Result<()> {
    match act {
        "act:done" => writeln!(out, "done")?,
        "act:fail" => Err(std::io::Error::other("no space")).context("while writing rank 1's part")?,
        "act:usage" => {
            lab::plot::Format::of("a.pdf".as_ref())?;
        }
        "act:panic" => panic!("rank 3"),
        // Far more than a pipe holds.
        "act:talk" => (0..200_000).try_for_each(|line| writeln!(out, "line {line}"))?,
        "act:threads" => {
            let three = NonZeroUsize::new(3).context("3")?;
            lab::startup::set_threads(three)?;
            let now = lab::startup::threads()?;
            let pool = program::in_pool(now, rayon_threads)?;
            writeln!(out, "{now} {pool} {}", std::env::var("CANDLE_NUM_THREADS")?)?;
        }
        _ => anyhow::bail!("no such act: {act}"),
    }
    Ok(())
}

fn rayon_threads() -> usize {
    rayon::current_num_threads()
}

fn this_program(act: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(act).env_remove("RAYON_NUM_THREADS").env_remove("CANDLE_NUM_THREADS").env_remove("RUST_BACKTRACE");
    command
}

fn texts(finished: &Finished) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (finished.status.code(), text(&finished.stdout), text(&finished.stderr))
}

fn exit_codes_tell_bad_usage_from_a_failed_run() {
    let finished = ["act:done", "act:fail", "act:usage", "act:panic"].map(|act| this_program(act).output().unwrap());
    assert_eq!(texts(&finished[0]), (Some(0), "done\n", ""));
    assert_eq!(texts(&finished[1]), (Some(1), "", "error: while writing rank 1's part\n  because: no space\n"));
    let (code, stdout, stderr) = texts(&finished[2]);
    assert_eq!((code, stdout), (Some(2), ""), "{stderr}");
    assert!(stderr.contains(".svg or .png"), "{stderr}");
    let (code, stdout, stderr) = texts(&finished[3]);
    assert_eq!((code, stdout), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("rank 3") && stderr.contains("program.rs:"), "where and why: {stderr}");
}

fn a_reader_that_goes_away_is_no_error() {
    let mut child = this_program("act:talk").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "line 0\n");
    // The reader is dropped here, as `| head -1` ends.
    let finished = child.wait_with_output().unwrap();
    assert_eq!(texts(&finished), (Some(0), "", ""));
}

fn threads_are_set_before_any_is_started() {
    let finished = this_program("act:threads").output().unwrap();
    assert_eq!(texts(&finished), (Some(0), "3 3 3\n", ""));
    let finished = this_program("act:threads").env("RAYON_NUM_THREADS", "many").output().unwrap();
    assert_eq!(texts(&finished).0, Some(0), "set_threads replaces it: {:?}", texts(&finished));
}
