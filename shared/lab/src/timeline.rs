//! A run on the wall clock, operation by operation: an observer that becomes a [`Trace`].

use crate::Result;
use crate::trace::Trace;
use ledger::{Kind, Observer, Operation};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Remembers when each operation ended. An operation lasts from the end of the one before it, so what happens in between
/// (choosing a token, a cache) counts as the next one's.
#[derive(Debug)]
pub struct Timeline {
    start: Instant,
    spans: Mutex<Vec<(f64, Operation)>>,
}

impl Timeline {
    /// Begins now.
    pub fn start() -> Self {
        Self { start: Instant::now(), spans: Mutex::new(Vec::new()) }
    }

    /// The operations as spans on one track, `compute` of `owner`; with FLOPs, bytes and weight on a click.
    ///
    /// # Errors
    /// Never for times that a clock gave.
    pub fn trace(&self, owner: &str) -> Result<Trace> {
        let mut trace = Trace::new();
        let track = trace.track(owner, "compute");
        let mut begin = 0.0;
        for (end, operation) in self.spans.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let args = [
                ("weight", operation.label.as_ref().into()),
                ("phase", format!("{:?}", operation.phase).into()),
                ("shape", format!("{:?}", operation.shape).into()),
                ("flops", operation.flops.into()),
                ("bytes", operation.bytes.into()),
            ];
            trace.span(track, operation.name, begin, end - begin, args)?;
            begin = *end;
        }
        Ok(trace)
    }
}

impl Observer for Timeline {
    fn observe(&self, operation: &Operation) -> std::result::Result<(), ledger::Error> {
        let end = self.start.elapsed().as_secs_f64();
        // The record is the program's, not the device's.
        let _kind = ledger::scope(Kind::Host);
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).push((end, operation.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use ledger::Phase;

    #[test]
    fn operations_become_spans_that_follow_each_other_without_gaps() {
        let timeline = Timeline::start();
        for flops in [1, 2, 3] {
            let (label, shape) = ("w".into(), vec![1]);
            let operation = Operation { name: "linear", label, phase: Phase::Forward, shape, flops, bytes: 1 };
            timeline.observe(&operation).unwrap();
        }
        let document = timeline.trace("device").unwrap().to_json();
        let spans: Vec<_> = document["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect();
        assert_eq!(spans.iter().map(|span| span["args"]["flops"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        for pair in spans.windows(2) {
            let end = pair[0]["ts"].as_f64().unwrap() + pair[0]["dur"].as_f64().unwrap();
            assert!((end - pair[1]["ts"].as_f64().unwrap()).abs() < 1e-6);
        }
    }
}
