//! What every chapter's `main` shares: [`run`], and [`in_pool`] for the computation inside.
//!
//! ```no_run
//! use std::io::Write;
//!
//! fn main() -> std::process::ExitCode {
//!     lab::program::run(|out| Ok(writeln!(out, "result")?))
//! }
//! ```

use crate::{Error, Result, startup};
use ledger::{Kind, Ledger};
use serde::Serialize;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// The run failed.
const FAILED: u8 = 1;
/// The run was asked for in a way that has no meaning; clap's own code too.
const BAD_USAGE: u8 = 2;

/// Runs a program: `body` gets stdout and returns what went wrong.
///
/// An error is written on stderr with its causes. The exit code is 0 for done, 1 for a failed run, 2 for bad usage. A reader that
/// closes stdout early (`| head`) ends the program without complaint: everything for stdout goes through `out`, not through `println!`,
/// which would panic. A panic of the body (a learner's `todo!`) is a failed run, too.
pub fn run(body: impl FnOnce(&mut Output) -> anyhow::Result<()>) -> ExitCode {
    startup::keep_freed_memory();
    let mut out = Output { stdout: io::stdout(), closed: false };
    // Where and why it panicked has been printed by then.
    let panicked = |_| Err(anyhow::anyhow!("the program stopped in the panic above"));
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&mut out))).unwrap_or_else(panicked);
    let outcome = outcome.and_then(|()| Ok(out.flush()?));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if out.closed && is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done if stderr is closed too.
            let _ = io::stderr().write_all(message(&error).as_bytes());
            ExitCode::from(if is_bad_usage(&error) { BAD_USAGE } else { FAILED })
        }
    }
}

/// Stdout of a program: remembers whether its reader went away.
#[derive(Debug)]
pub struct Output {
    stdout: io::Stdout,
    closed: bool,
}

impl Output {
    fn notice<T>(&mut self, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &outcome {
            self.closed |= error.kind() == io::ErrorKind::BrokenPipe;
        }
        outcome
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.stdout.write(bytes);
        self.notice(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.stdout.flush();
        self.notice(outcome)
    }
}

/// The one document on stdout that `--json` asks for.
///
/// # Errors
/// Stdout cannot be written.
pub fn write_json(out: &mut Output, document: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    Ok(writeln!(out)?)
}

/// Runs `f` inside one rayon pool of `threads` threads, the calling thread's own work included.
///
/// From outside of a pool each parallel operation costs about 80 µs to hand over, per layer and token; inside of one it does not.
/// `f` allocates for the caller's ledger and kind, the pool's other threads for the same ledger, as workspace.
///
/// # Errors
/// The threads cannot be started.
pub fn in_pool<T: Send>(threads: NonZeroUsize, f: impl FnOnce() -> T + Send) -> Result<T> {
    let (ledger, kind) = (Ledger::of_this_thread(), Kind::current());
    // Not `use_current_thread`: rayon leaks such a pool and allows one per thread, and a rank's ledger would never become empty.
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .thread_name(|index| format!("compute {index}"))
        .build_scoped(
            |thread| {
                let (_ledger, _workspace) = (ledger.enter(), ledger::scope(Kind::Workspace));
                thread.run();
            },
            |pool| {
                pool.install(|| {
                    let _kind = ledger::scope(kind);
                    f()
                })
            },
        )
        .map_err(|error| Error::Threads { threads: threads.to_string(), problem: error.to_string() })
}

/// The error and its causes, without those that the text before already says.
fn message(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += &format!("  because: {cause}\n");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let direct = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        direct.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

/// Whether a flag or setting is to blame.
fn is_bad_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(Error::Flag { .. } | Error::Threads { .. } | Error::Ledger(ledger::Error::Bytes { .. }))
        ) || matches!(cause.downcast_ref(), Some(decoder::Error::Setting { .. }))
            || matches!(cause.downcast_ref(), Some(Error::Decoder(decoder::Error::Setting { .. })))
            || matches!(cause.downcast_ref(), Some(collective::Error::Setting { .. }))
            || matches!(cause.downcast_ref(), Some(Error::Collective(collective::Error::Setting { .. })))
            || matches!(cause.downcast_ref(), Some(ledger::Error::Bytes { .. }))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use anyhow::{Context, anyhow};
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    use std::collections::HashSet;

    #[test]
    fn an_error_is_written_with_its_causes_and_says_nothing_twice() {
        let cause = Error::File { action: "write", path: "out/a.svg".into(), source: io::Error::other("disk full") };
        let error = anyhow!(cause).context("while drawing the plot of rank 1");
        let text = message(&error);
        assert_eq!(
            text, "error: while drawing the plot of rank 1\n  because: cannot write out/a.svg: disk full\n",
            "the cause of the cause is part of its text"
        );
    }

    #[test]
    fn bad_usage_is_told_from_a_failed_run_through_any_context() {
        let flag = Error::Flag { flag: "--device", found: "cuda:0".into(), expected: "…".into() };
        let setting = decoder::Error::Setting { name: "--top-k", found: "0".into(), expected: "…".into() };
        assert!(is_bad_usage(&anyhow!(flag).context("a").context("b")));
        assert!(is_bad_usage(&anyhow!(setting)));
        assert!(!is_bad_usage(&anyhow!("the run failed")));
    }

    #[test]
    fn a_broken_pipe_is_found_anywhere_in_the_chain() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&Err::<(), _>(pipe()).context("a").context("b").unwrap_err()));
        assert!(is_broken_pipe(&anyhow!(serde_json::Error::io(pipe()))));
        assert!(!is_broken_pipe(&anyhow!(io::Error::other("disk full"))));
    }

    #[test]
    fn a_pool_has_the_threads_asked_for_and_can_be_had_again() {
        for threads in [1, 3, 2].map(|threads| NonZeroUsize::new(threads).unwrap()) {
            let (inside, index, sum, names) = in_pool(threads, || {
                let names: HashSet<_> = rayon::broadcast(|_| std::thread::current().id()).into_iter().collect();
                let sum: u64 = (0..1000u64).into_par_iter().sum();
                (rayon::current_num_threads(), rayon::current_thread_index(), sum, names.len())
            })
            .unwrap();
            assert_eq!((inside, names, sum), (threads.get(), threads.get(), 499_500));
            assert!(index.is_some(), "f itself runs inside of the pool");
        }
    }

    #[test]
    fn a_pool_allocates_for_the_callers_ledger() {
        let ledger = Ledger::claim("rank 7").unwrap();
        let (_entered, _kind) = (ledger.enter(), ledger::scope(Kind::KvCache));
        let (owner, kind, others) = in_pool(NonZeroUsize::new(2).unwrap(), || {
            let others = rayon::broadcast(|_| Ledger::of_this_thread().name());
            (Ledger::of_this_thread(), Kind::current(), others)
        })
        .unwrap();
        assert_eq!((owner, kind), (ledger.clone(), Kind::KvCache));
        assert_eq!(others, ["rank 7", "rank 7"]);
    }
}
