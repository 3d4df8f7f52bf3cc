//! A check as it is run: on a thread of its own, so that whatever the code under it does ends as a [`State`].
//!
//! Learners' code panics and hangs, that is what exercises are for. `todo!` is "not started", any other panic is a diagnosis with its
//! message and line, and a check that has not ended after [`TIME_LIMIT`] is given up. Ranks that wait for each other in a circle
//! do not get that far: their engine ends them with a diagnosis of its own.

use super::{Check, Diagnosis};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Checks take at most a second or so; this allows for a machine with other work to do.
pub const TIME_LIMIT: Duration = Duration::from_secs(20);
/// As a rank's: candle sorts a graph by recursion.
const STACK: usize = 64 << 20;
/// What `todo!` says, also when it is passed on by a rank.
const TODO: &str = "not yet implemented";

/// How far an exercise is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The check passes.
    Passed,
    /// The check came upon `todo!`.
    NotStarted,
    /// The check does not pass.
    Failing(Diagnosis),
}

impl State {
    /// `passed`, `not started`, `failing`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::NotStarted => "not started",
            Self::Failing(_) => "failing",
        }
    }

    /// The name behind a mark: `✓ passed`.
    pub fn marked(&self) -> String {
        let mark = if *self == Self::Passed { '✓' } else { '✗' };
        format!("{mark} {}", self.name())
    }

    /// The diagnosis, if there is one.
    pub fn diagnosis(&self) -> Option<&Diagnosis> {
        match self {
            Self::Failing(diagnosis) => Some(diagnosis),
            Self::Passed | Self::NotStarted => None,
        }
    }
}

/// Runs the check of exercise `id` and says how it ended.
pub fn judge(id: &str, check: Check) -> State {
    judge_within(TIME_LIMIT, id, check)
}

fn judge_within(limit: Duration, id: &str, check: Check) -> State {
    record_panics();
    let (ended, outcome) = channel();
    // The name is what Rust prints if the stack overflows.
    let thread = thread::Builder::new().name(format!("exercise {id}")).stack_size(STACK).spawn(move || {
        // Nobody listens any more once the time is over.
        let _ = ended.send(recorded(check));
    });
    if let Err(error) = thread {
        return State::Failing(Diagnosis::new(format!("the check could not be started: {error}")));
    }
    match outcome.recv_timeout(limit) {
        Ok(Ok(())) => State::Passed,
        Ok(Err(diagnosis)) if diagnosis.text().contains(TODO) => State::NotStarted,
        Ok(Err(diagnosis)) => State::Failing(diagnosis),
        Err(RecvTimeoutError::Timeout) => State::Failing(Diagnosis::new(format!(
            "it had not ended after {} s: does a loop never end, or does something wait for what never comes?",
            limit.as_secs_f64()
        ))),
        Err(RecvTimeoutError::Disconnected) => State::Failing(Diagnosis::new("its thread ended without a result")),
    }
}

thread_local! {
    /// On a thread that runs a check: where its panic was.
    static RECORDED: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether this thread runs a check.
    static CHECKING: Cell<bool> = const { Cell::new(false) };
}

/// A panic under a check is its result and is not printed; those of all other threads are, as before.
fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if CHECKING.get() {
                let place = panic.location().map(|location| format!("{}:{}", location.file(), location.line()));
                RECORDED.set(place);
            } else {
                before(panic);
            }
        }));
    });
}

/// Runs the check on this thread; a panic becomes a diagnosis.
fn recorded(check: Check) -> Result<(), Diagnosis> {
    CHECKING.set(true);
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let place = RECORDED.take().map_or_else(String::new, |place| format!("\nat {place}"));
        Err(Diagnosis::new(format!("it panicked: {}{place}", message(panic.as_ref()))))
    })
}

/// The text that `panic!` was given.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo)]
    use super::*;
    use collective::{Options, Rank, launch};

    fn judged(check: impl FnOnce() -> Result<(), Diagnosis> + Send + 'static) -> State {
        judge("9.9", Box::new(check))
    }

    /// A check that runs two ranks.
    fn on_ranks(body: fn(&Rank) -> collective::Result<()>) -> State {
        judged(move || Ok(launch(2, &Options::default(), body).map(drop)?))
    }

    #[test]
    fn a_todo_is_not_started_whether_it_is_reached_here_or_on_a_rank() {
        assert_eq!(judged(|| todo!("exercise 9.9")), State::NotStarted);
        assert_eq!(judged(|| todo!()), State::NotStarted);
        let on_rank_1 =
            |rank: &Rank| if rank.rank() == 1 { todo!("exercise 9.9") } else { rank.communicator().barrier() };
        assert_eq!(on_ranks(on_rank_1), State::NotStarted);
    }

    #[test]
    fn ranks_that_wait_for_each_other_end_long_before_the_time_limit_with_who_waits_for_whom() {
        let start = std::time::Instant::now();
        let state = on_ranks(|rank| rank.communicator().recv(1 - rank.rank()).map(drop));
        let text = state.diagnosis().unwrap().text();
        assert!(text.contains("rank 0") && text.contains("rank 1") && text.contains("recv"), "{text}");
        assert!(start.elapsed() < TIME_LIMIT / 2, "{:?}", start.elapsed());
    }

    #[test]
    fn a_panic_is_a_diagnosis_with_its_message_and_its_line() {
        let state = judged(|| {
            let (empty, index): (Vec<u32>, usize) = (Vec::new(), 3);
            let found = empty[index];
            Diagnosis::unless(found == 0, String::new)
        });
        let text = state.diagnosis().unwrap().text();
        assert!(text.contains("judge.rs:") && text.contains("index is 3"), "{text}");
        assert_eq!(state.name(), "failing");
    }

    #[test]
    fn what_does_not_end_is_given_up_after_the_time_limit_which_the_diagnosis_states() {
        let (_keep, never) = channel::<()>();
        let hang: Check = Box::new(move || {
            let _ = never.recv();
            Ok(())
        });
        let state = judge_within(Duration::from_millis(250), "9.9", hang);
        assert!(state.diagnosis().unwrap().text().contains("after 0.25 s"), "{state:?}");
    }

    #[test]
    fn a_check_that_returns_is_taken_at_its_word() {
        assert_eq!(judged(|| Ok(())), State::Passed);
        assert_eq!(judged(|| Err(Diagnosis::new("too few"))), State::Failing(Diagnosis::new("too few")));
    }
}
