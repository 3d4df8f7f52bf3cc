//! The clock of a rank: a time for what it computes, and a time per tier for its links.
//!
//! Under [`ClockKind::Roofline`] real arithmetic is done, but time is what a chosen device would take: the clock is an
//! [`Observer`], and each operation advances the compute time. A message starts at max(its issue, the link being free),
//! occupies the link for bytes / bandwidth, arrives a latency later ([`Link::pass`]); who waits for it, on either side,
//! goes on no earlier than its arrival. Operations that are under way at once share a rank's links in the order of
//! their issue, and nothing else: a tensor-parallel all-reduce inside of a node and a data-parallel one between nodes
//! overlap. Nothing depends on the machine or its load: two cores show the timeline of 64 GPUs, the same each time.

use crate::{Error, Link, Passage, Result, Tier};
use ledger::{Kind, Observer, Operation};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// A device by its two speeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// FLOP per second.
    pub peak: f64,
    /// Bytes per second between memory and processor.
    pub bandwidth: f64,
    /// The fraction of both that real programs reach; above 0, at most 1.
    pub efficiency: f64,
}

impl Roofline {
    /// Seconds that an operation takes: the longer of computing and moving, over the efficiency.
    pub fn seconds(&self, flops: u64, bytes: u64) -> f64 {
        (flops as f64 / self.peak).max(bytes as f64 / self.bandwidth) / self.efficiency
    }
}

/// What counts as time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ClockKind {
    /// Real time.
    #[default]
    Wall,
    /// What the operations would take on a device.
    Roofline(Roofline),
    /// The CPU time of the rank's own thread; links as under the roofline. Shows this machine, not a GPU.
    Cpu,
}

impl ClockKind {
    /// Whether messages take the time of their link.
    pub fn models_links(&self) -> bool {
        !matches!(self, Self::Wall)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |name, found: f64, expected: &str| {
            Err(Error::Setting { name, found: found.to_string(), expected: expected.to_owned() })
        };
        if let Self::Roofline(Roofline { peak, bandwidth, efficiency }) = *self {
            if !(peak.is_finite() && peak > 0.0) {
                return wrong("peak", peak, "FLOP per second, above 0");
            }
            if !(bandwidth.is_finite() && bandwidth > 0.0) {
                return wrong("memory bandwidth", bandwidth, "bytes per second, above 0");
            }
            if !(efficiency > 0.0 && efficiency <= 1.0) {
                return wrong("efficiency", efficiency, "above 0 and at most 1");
            }
        }
        if matches!(self, Self::Cpu) && thread_time().is_none() {
            return Err(Error::Setting {
                name: "clock",
                found: "cpu".to_owned(),
                expected: "roofline or wall: this system does not tell the CPU time of a thread".to_owned(),
            });
        }
        Ok(())
    }
}

/// What a rank was busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Computing.
    Compute,
    /// Its link of a tier.
    Link(Tier),
}

/// One stretch of a rank's timeline, in seconds. Kept if the launch asks for a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Where.
    pub lane: Lane,
    /// The operation: `linear model.layers.0.mlp.up_proj.weight`, `all_reduce to rank 3`.
    pub name: String,
    /// From.
    pub start: f64,
    /// To.
    pub end: f64,
}

/// One rank's clock. An [`Observer`]: hand it to the decoder.
#[derive(Debug)]
pub struct Clock {
    kind: ClockKind,
    started: Instant,
    timeline: bool,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    compute: f64,
    link_free: [f64; 2],
    /// The thread whose CPU time counts, and its reading up to which it was counted.
    cpu: Option<(ThreadId, Duration)>,
    spans: Vec<Span>,
}

impl Clock {
    pub(crate) fn new(kind: ClockKind, timeline: bool) -> Self {
        Self { kind, started: Instant::now(), timeline, times: Mutex::default() }
    }

    /// What counts as time.
    pub fn kind(&self) -> ClockKind {
        self.kind
    }

    /// Seconds since the launch: the compute time, or real time.
    pub fn now(&self) -> f64 {
        match self.kind {
            ClockKind::Wall => self.started.elapsed().as_secs_f64(),
            _ => self.counted().compute,
        }
    }

    /// The timeline so far, in order of time; it starts again. Empty unless the launch asked for one.
    pub fn take_spans(&self) -> Vec<Span> {
        let mut spans = std::mem::take(&mut self.lock().spans);
        // The two threads of a rank note their spans in any order; the times do not depend on that.
        spans.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.lane.cmp(&b.lane)).then(a.end.total_cmp(&b.end)));
        spans
    }

    /// Computing takes `seconds` more, for schedules that are simulated instead of run. Nothing under the wall and CPU
    /// clocks.
    pub fn advance(&self, name: &str, seconds: f64) {
        if let ClockKind::Roofline(_) = self.kind {
            let mut times = self.lock();
            let start = times.compute;
            times.compute = start + seconds;
            self.note(&mut times, Lane::Compute, start, start + seconds, || name.to_owned());
        }
    }

    /// The time of a message's issue, on the thread that computes.
    pub(crate) fn issue(&self) -> f64 {
        self.counted().compute
    }

    /// A message leaves over the link of `tier`.
    pub(crate) fn send(&self, at: f64, tier: Tier, link: &Link, bytes: u64, name: impl FnOnce() -> String) -> Passage {
        if !self.kind.models_links() {
            return Passage { start: at, free: at, arrival: at };
        }
        let mut times = self.lock();
        let passage = link.pass(at, times.link_free[tier as usize], bytes);
        times.link_free[tier as usize] = passage.free;
        self.note(&mut times, Lane::Link(tier), passage.start, passage.free, name);
        passage
    }

    /// The computing thread has waited for what was over at `end`.
    pub(crate) fn wait(&self, end: f64) {
        let mut times = self.lock();
        times.compute = times.compute.max(end);
        if matches!(self.kind, ClockKind::Cpu) {
            // What the thread did inside of the call is the call's, not computing.
            times.cpu = thread_time().map(|now| (std::thread::current().id(), now));
        }
    }

    /// The times, with the CPU time up to now counted.
    fn counted(&self) -> MutexGuard<'_, Times> {
        let mut times = self.lock();
        if matches!(self.kind, ClockKind::Cpu)
            && let Some(now) = thread_time()
        {
            let thread = std::thread::current().id();
            if let Some((_, before)) = times.cpu.filter(|(counted, _)| *counted == thread) {
                let start = times.compute;
                times.compute += now.saturating_sub(before).as_secs_f64();
                let end = times.compute;
                self.note(&mut times, Lane::Compute, start, end, || "compute".to_owned());
            }
            times.cpu = Some((thread, now));
        }
        times
    }

    fn note(&self, times: &mut Times, lane: Lane, start: f64, end: f64, name: impl FnOnce() -> String) {
        if self.timeline {
            let _host = ledger::scope(Kind::Host);
            times.spans.push(Span { lane, name: name(), start, end });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Clock {
    fn observe(&self, operation: &Operation) -> Result<(), ledger::Error> {
        match self.kind {
            ClockKind::Wall => {}
            ClockKind::Cpu => drop(self.counted()),
            ClockKind::Roofline(device) => {
                let mut times = self.lock();
                let start = times.compute;
                let end = start + device.seconds(operation.flops, operation.bytes);
                times.compute = end;
                self.note(&mut times, Lane::Compute, start, end, || {
                    format!("{} {}", operation.name, operation.label).trim_end().to_owned()
                });
            }
        }
        Ok(())
    }
}

/// CPU time of the current thread.
#[cfg(unix)]
fn thread_time() -> Option<Duration> {
    cpu_time::ThreadTime::try_now().ok().map(|now| now.as_duration())
}

#[cfg(not(unix))]
fn thread_time() -> Option<Duration> {
    None
}
