//! The processor time of a thread. The one place with `unsafe`: the standard library has no such clock, and what the files under
//! `/proc` say is as coarse as the scheduler's tick.
#![allow(unsafe_code)]

/// Seconds that the calling thread has had the processor.
pub(crate) fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes one `timespec` through the pointer, which is valid for the call. Were the clock refused, the
    // zeros would stay, and every time measured would be zero.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
