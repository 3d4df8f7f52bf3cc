//! Starts a chapter's program as the shell does, and holds what it left. The later chapters' tests take this file, too; which program it is
//! says `PROGRAM` in their `main.rs`.

use serde_json::Value;
use std::process::{Command, Output};

/// A finished run.
pub(crate) struct Run {
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn program() -> Command {
    let mut command = Command::new(crate::PROGRAM);
    // Nothing of the caller's surroundings, and no network.
    command.env_remove("RUST_BACKTRACE").env("HF_HUB_OFFLINE", "1").env_remove("HF_ENDPOINT");
    command
}

impl Run {
    #[track_caller]
    pub(crate) fn of(line: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let run = Self { line, code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
        assert!(!run.stderr.contains("panicked") && !run.stderr.contains("backtrace"), "{run}");
        run
    }

    /// What a run that went well has on stdout.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{self}");
        self.stdout
    }

    /// The document of a run with `--json` that went well: all that stdout holds.
    #[track_caller]
    pub(crate) fn document(self) -> Value {
        let text = self.done();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    /// A run that must end with `code`, nothing on stdout, and one message that has all `words`.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &[&str]) {
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
        write!(f, "{line}: exit code {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
