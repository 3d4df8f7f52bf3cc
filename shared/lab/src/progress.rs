//! How far a run is: on stderr, and only where stderr is a terminal; otherwise nothing is written.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// A bar (`total` known) or a spinner. It goes away when dropped, so that only results stay on the screen.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `total` steps of `what`.
    pub fn bar(what: impl Into<String>, total: u64) -> Self {
        Self::new(what.into(), Some(total), "{msg} {wide_bar} {pos}/{len} {eta}")
    }

    /// A spinner, where the number of steps is not known.
    pub fn spinner(what: impl Into<String>) -> Self {
        Self::new(what.into(), None, "{spinner} {msg} {pos} {elapsed}")
    }

    fn new(what: String, total: Option<u64>, template: &str) -> Self {
        let target = if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target).with_message(what);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar }
    }

    /// `steps` more are done.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// What is being done now.
    pub fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Steps done.
    pub fn position(&self) -> u64 {
        self.bar.position()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_progress_counts_and_stays_quiet() {
        let progress = [Progress::bar("steps", 3), Progress::spinner("tokens")];
        for progress in &progress {
            progress.advance(2);
            progress.say("still at it");
            assert_eq!(progress.position(), 2);
            // Tests may run in a terminal.
            assert_eq!(progress.bar.is_hidden(), !stderr().is_terminal());
        }
    }
}
