//! What both benches measure with: clocks, memory, the machine's read bandwidth, and the time by operation.
//!
//! Other programs only ever make a measurement slower, so the best of several repetitions counts, and a figure is compared with
//! a floor or a peer of the same run. One thread is timed by the processor time that it had, several by the wall clock.

mod processor;

use ledger::{Error, Observer, Operation, Phase};
use processor::processor_seconds;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A running measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    wall: Instant,
    /// Seconds that the calling thread had the processor.
    processor: f64,
}

impl Stopwatch {
    /// Starts on the calling thread.
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), processor: processor_seconds() }
    }

    /// Seconds since the start: of the processor if `threads` is 1, of the wall clock otherwise.
    pub(crate) fn seconds(self, threads: usize) -> f64 {
        if threads == 1 { processor_seconds() - self.processor } else { self.wall.elapsed().as_secs_f64() }
    }
}

/// Seconds of the fastest of `repetitions`.
pub(crate) fn fastest<E>(
    repetitions: usize,
    threads: usize,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<f64, E> {
    let mut fastest = f64::INFINITY;
    for _ in 0..repetitions {
        let watch = Stopwatch::start();
        work()?;
        fastest = fastest.min(watch.seconds(threads));
    }
    Ok(fastest)
}

/// Anonymous resident bytes of this process: what it allocated, not the files that it mapped.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Bytes per second that `threads` threads of the current rayon pool read, from a buffer far larger than the caches.
pub(crate) struct ReadBandwidth {
    buffer: Vec<u64>,
}

impl ReadBandwidth {
    /// The buffer: half a GiB.
    pub(crate) fn new() -> Self {
        Self { buffer: vec![1; 1 << 26] }
    }

    /// The best of three passes.
    pub(crate) fn measure(&self, threads: usize) -> f64 {
        let share = self.buffer.len().div_ceil(threads);
        let pass = || {
            let sum = if threads == 1 {
                sum(&self.buffer)
            } else {
                use rayon::prelude::*;
                self.buffer.par_chunks(share).map(sum).sum()
            };
            std::hint::black_box(sum);
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(seconds) = fastest(3, threads, pass);
        (self.buffer.len() * size_of::<u64>()) as f64 / seconds
    }
}

/// Enough running sums that memory, not the addition, is the limit.
fn sum(values: &[u64]) -> u64 {
    let (blocks, rest) = values.as_chunks::<32>();
    let mut sums = [0u64; 32];
    for block in blocks {
        for (sum, value) in sums.iter_mut().zip(block) {
            *sum = sum.wrapping_add(*value);
        }
    }
    sums.into_iter().chain(rest.iter().copied()).fold(0, u64::wrapping_add)
}

/// The observer that times: each operation is charged with the time since the one before it, so what candle's graph does
/// between two operations counts for the later one.
#[derive(Debug)]
pub(crate) struct ByOperation {
    threads: usize,
    times: Mutex<(Stopwatch, Times)>,
}

/// Seconds by operation and direction.
pub(crate) type Times = BTreeMap<(&'static str, &'static str), f64>;

impl ByOperation {
    /// Starts now, for a computation with `threads` threads on the calling one.
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, times: Mutex::new((Stopwatch::start(), Times::new())) }
    }

    /// What was measured since the last call; the clock starts again.
    pub(crate) fn take(&self) -> Times {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.0 = Stopwatch::start();
        std::mem::take(&mut times.1)
    }

    /// Charges the time since the last operation to `name`.
    pub(crate) fn charge(&self, name: &'static str, phase: &'static str) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = times.0.seconds(self.threads);
        *times.1.entry((name, phase)).or_default() += seconds;
        times.0 = Stopwatch::start();
    }
}

impl Observer for ByOperation {
    fn observe(&self, operation: &Operation) -> Result<(), Error> {
        let phase = match operation.phase {
            Phase::Forward => "forward",
            Phase::InputGradient => "input gradient",
            _ => "weight gradient",
        };
        self.charge(operation.name, phase);
        Ok(())
    }
}
