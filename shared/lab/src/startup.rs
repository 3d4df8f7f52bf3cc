//! Settings of the whole process, made once, at the start of `main`. The one place with `unsafe`, because they change what the C
//! library and other threads see.
#![allow(unsafe_code)]

use crate::{Error, Result};
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

/// Variables that say how many threads candle computes with: matrix products, and element-wise operations on large tensors.
/// candle reads them again at each operation.
const THREAD_VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"];

/// Far more threads than cores only wait for each other.
const MOST_THREADS: usize = 256;

/// Makes the allocator keep freed memory for the next tensor, in place of handing it back to the system.
///
/// Training frees and allocates the same megabytes each step; handing them back costs a page fault per 4 KiB (measured: 275-416 ms of a
/// step's system time, a third of its duration). Does nothing where the C library is not glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` may be called at any time; it takes two integers and keeps no pointer. A refused setting (0 is returned) changes
    // nothing but speed.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// How many threads this process may compute with: `RAYON_NUM_THREADS` if it is set, else the cores there are.
///
/// # Errors
/// A variable that is not a number from 1 up.
pub fn threads() -> Result<NonZeroUsize> {
    let variable = THREAD_VARIABLES[0];
    match std::env::var_os(variable) {
        None => Ok(available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        Some(value) => value
            .to_str()
            .and_then(|text| text.trim().parse().ok())
            .filter(|threads: &NonZeroUsize| threads.get() <= MOST_THREADS)
            .ok_or_else(|| Error::Threads {
                threads: format!("{variable}={}", value.to_string_lossy()),
                problem: format!(
                    "it must be a whole number from 1 to {MOST_THREADS}; set it so, or unset it to use every core"
                ),
            }),
    }
}

/// Makes candle compute with `threads` threads: sets its variables. With 1, an operation stays on the thread that calls it, which
/// is what makes a rank one core.
///
/// Call it first thing in `main`, before any thread is started: the environment must not change while another thread reads it.
/// On Linux that is checked.
///
/// # Errors
/// The process has other threads already.
pub fn set_threads(threads: NonZeroUsize) -> Result<()> {
    let text = threads.to_string();
    if THREAD_VARIABLES.iter().all(|variable| std::env::var_os(variable).is_some_and(|value| value == *text)) {
        return Ok(());
    }
    // `/proc/self/task` has one entry per thread; where it does not exist, the caller's word counts.
    let running = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if running > 1 {
        return Err(Error::Threads {
            threads: text.clone(),
            problem: format!(
                "the process already has {running} threads, and its environment cannot change under them; start it with \
                 RAYON_NUM_THREADS={text} CANDLE_NUM_THREADS={text}"
            ),
        });
    }
    for variable in THREAD_VARIABLES {
        // SAFETY: no other thread runs (checked above on Linux, stated in the documentation elsewhere), so none reads the
        // environment meanwhile.
        unsafe { std::env::set_var(variable, &text) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_environment_is_not_changed_under_running_threads() {
        keep_freed_memory();
        // Not what is set, so that there is something to change.
        let other = NonZeroUsize::new(threads().unwrap().get() + 1000).unwrap();
        let before: Vec<_> = THREAD_VARIABLES.iter().map(std::env::var_os).collect();
        if cfg!(target_os = "linux") {
            let (release, wait) = std::sync::mpsc::channel::<()>();
            let thread = std::thread::spawn(move || wait.recv());
            let message = set_threads(other).unwrap_err().to_string();
            assert!(message.contains("RAYON_NUM_THREADS"), "{message}");
            drop(release);
            let _ = thread.join();
        }
        assert_eq!(before, THREAD_VARIABLES.iter().map(std::env::var_os).collect::<Vec<_>>());
    }
}
