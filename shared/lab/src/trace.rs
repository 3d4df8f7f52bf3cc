//! Timelines as Chrome trace JSON, which <https://ui.perfetto.dev> opens.
//!
//! A trace has tracks (`rank 0` / `compute`), a track has spans with a start and a duration in seconds. The format is the Trace
//! Event Format: metadata events name processes and threads, complete events (`X`) are spans in microseconds.

use crate::error::{Error, Result, write_file};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A timeline under construction.
///
/// ```
/// let mut trace = lab::trace::Trace::new();
/// let compute = trace.track("rank 0", "compute");
/// trace.span(compute, "linear", 0.0, 1.5e-3, [("flops", 12.into())])?;
/// assert!(trace.to_json().to_string().contains("rank 0"));
/// # Ok::<(), lab::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Owner (a process in the viewer) and its tracks (threads), in the order in which they were named.
    owners: Vec<(String, Vec<String>)>,
    spans: Vec<Value>,
}

/// One track of a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Track {
    owner: usize,
    lane: usize,
}

impl Trace {
    /// An empty timeline.
    pub fn new() -> Self {
        Self::default()
    }

    /// The track `lane` of `owner` (`rank 0`, `compute`); the same names give the same track.
    pub fn track(&mut self, owner: &str, lane: &str) -> Track {
        let owner = position_or_push(&mut self.owners, |(name, _)| name == owner, || (owner.to_owned(), Vec::new()));
        let lane = position_or_push(&mut self.owners[owner].1, |name| name == lane, || lane.to_owned());
        Track { owner, lane }
    }

    /// A span on a track, with what the viewer shows on a click. Spans on one track must nest or be apart.
    ///
    /// # Errors
    /// Times that are not finite, and a negative duration.
    pub fn span<K: Into<String>>(
        &mut self,
        track: Track,
        name: &str,
        start_seconds: f64,
        duration_seconds: f64,
        args: impl IntoIterator<Item = (K, Value)>,
    ) -> Result<()> {
        if !start_seconds.is_finite() || !duration_seconds.is_finite() || duration_seconds < 0.0 {
            return Err(Error::Span { name: name.to_owned(), start: start_seconds, duration: duration_seconds });
        }
        let args: Map<String, Value> = args.into_iter().map(|(key, value)| (key.into(), value)).collect();
        self.spans.push(json!({
            "ph": "X", "pid": track.owner, "tid": track.lane, "name": name,
            "ts": start_seconds * 1e6, "dur": duration_seconds * 1e6, "args": args,
        }));
        Ok(())
    }

    /// Spans so far.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The document.
    pub fn to_json(&self) -> Value {
        let mut events = Vec::new();
        for (pid, (owner, lanes)) in self.owners.iter().enumerate() {
            events.push(json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": owner}}));
            events.push(json!({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}));
            for (tid, lane) in lanes.iter().enumerate() {
                events.push(json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": lane}}));
                events.push(json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}));
            }
        }
        events.extend(self.spans.iter().cloned());
        json!({"displayTimeUnit": "ms", "traceEvents": events})
    }

    /// Writes the document; the folder is created.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &Path) -> Result<()> {
        write_file(path, self.to_json().to_string().as_bytes())
    }
}

fn position_or_push<T>(list: &mut Vec<T>, wanted: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    list.iter().position(wanted).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_written_trace_has_named_tracks_and_spans_in_microseconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folder/trace.json");
        let mut trace = Trace::new();
        let compute = trace.track("rank 1", "compute");
        let link = trace.track("rank 1", "link");
        assert_eq!(trace.track("rank 1", "compute"), compute);
        assert_ne!(trace.track("rank 0", "compute"), compute);
        trace.span(link, "all_reduce \"q\"", 0.5, 0.25, [("bytes", 64.into())]).unwrap();
        trace.write(&path).unwrap();
        let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let span = events.iter().find(|event| event["ph"] == "X").unwrap();
        assert_eq!((span["ts"].as_f64(), span["dur"].as_f64()), (Some(500_000.0), Some(250_000.0)));
        assert_eq!(span["args"]["bytes"], 64);
        let named = |key: &str, name: &str| {
            events.iter().find(|event| event["name"] == key && event["args"]["name"] == name).unwrap()
        };
        assert_eq!(named("process_name", "rank 1")["pid"], span["pid"]);
        assert_eq!(named("thread_name", "link")["tid"], span["tid"]);
    }

    #[test]
    fn times_that_are_none_and_paths_that_cannot_be_written_are_refused() {
        let mut trace = Trace::new();
        let track = trace.track("rank 0", "compute");
        for (start, duration) in [(f64::NAN, 1.0), (0.0, f64::INFINITY), (0.0, -1.0)] {
            let message = trace.span(track, "step", start, duration, [("", Value::Null)]).unwrap_err().to_string();
            assert!(message.contains("step"), "{message}");
        }
        assert!(trace.is_empty());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let message = trace.write(&folder.path().join("file/trace.json")).unwrap_err().to_string();
        assert!(message.contains("file"), "{message}");
    }
}
