//! Ctrl-C asks for an end; the training loop ends between two steps, with a checkpoint.

use crate::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Exit code of a program that Ctrl-C ended, by the convention of shells: 128 + SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

/// A process has one handler, so it has one flag.
static OF_PROCESS: OnceLock<Interrupt> = OnceLock::new();

/// Whether somebody asked this run to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// The interrupt of this process: Ctrl-C, SIGTERM or SIGHUP request the end; a second one ends the process at once, with
    /// the last checkpoint as it is. Further calls return the same interrupt.
    ///
    /// # Errors
    /// The process already has another handler, or the system refuses one.
    pub fn of_process() -> Result<Self> {
        if let Some(interrupt) = OF_PROCESS.get() {
            return Ok(interrupt.clone());
        }
        let interrupt = Self::default();
        let handler = interrupt.clone();
        ctrlc::try_set_handler(move || {
            if handler.requested.swap(true, Ordering::SeqCst) {
                std::process::exit(EXIT_INTERRUPTED);
            }
        })?;
        Ok(OF_PROCESS.get_or_init(|| interrupt).clone())
    }

    /// Asks for the end.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Whether the end was asked for. The loop looks between two steps.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_signal_sets_the_flag_that_the_loop_polls() {
        let interrupt = Interrupt::of_process().unwrap();
        let again = Interrupt::of_process().unwrap();
        assert!(!interrupt.requested());
        let killed =
            std::process::Command::new("kill").args(["-INT", &std::process::id().to_string()]).status().unwrap();
        assert!(killed.success());
        let start = Instant::now();
        while !interrupt.requested() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(interrupt.requested() && again.requested(), "SIGINT did not arrive within 5 s");
    }
}
