//! What happened at each step, as JSON lines: one object per step, readable while the run goes on.
//!
//! A resumed run repeats the steps after its checkpoint; their lines are cut off first, so that a step stands there once.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Step, counted from 0.
    pub step: u64,
    /// Mean loss of the global batch before the step, in nats.
    pub loss: f64,
    /// Global norm of the gradient before clipping.
    pub norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Tokens trained on so far, this step included.
    pub tokens: u64,
    /// Tokens of this step over its seconds.
    pub tokens_per_second: f64,
}

/// Appends records to a file.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: File,
}

impl Metrics {
    /// A new, empty file, or an old one emptied.
    ///
    /// # Errors
    /// The file cannot be created, or another run is writing it.
    pub fn create(path: &Path) -> Result<Self> {
        let file = open_for_one(path)?;
        file.set_len(0).map_err(Error::file("empty", path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Goes on after the records of the steps before `step`; cuts off what comes after them. A file that is not there is created.
    ///
    /// # Errors
    /// The file cannot be read or written, holds other things than records, or another run is writing it.
    pub fn resume(path: &Path, step: u64) -> Result<Self> {
        let mut file = open_for_one(path)?;
        let keep = length_before(&file, path, step)?;
        file.set_len(keep).map_err(Error::file("shorten", path))?;
        file.seek(SeekFrom::End(0)).map_err(Error::file("seek in", path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Deletes the file, if it is there.
    ///
    /// # Errors
    /// The file cannot be deleted, or a run is writing it.
    pub fn remove(path: &Path) -> Result<()> {
        if !path.try_exists().map_err(Error::file("look for", path))? {
            return Ok(());
        }
        let _held = open_for_one(path)?;
        std::fs::remove_file(path).map_err(Error::file("delete", path))
    }

    /// Appends one line, at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_vec(record).map_err(|error| Error::file("write", &self.path)(error.into()))?;
        line.push(b'\n');
        // One write per line: a line is there whole or, after a crash, as the last one, in part.
        self.file.write_all(&line).map_err(Error::file("write", &self.path))
    }
}

/// Opens the file, which is created where it is missing, for one run alone: two that write into one folder would destroy each other's
/// checkpoints. The lock goes with the process, however that ends.
fn open_for_one(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(Error::file("open", path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::Occupied { path: path.to_owned() }),
        // Some network file systems know no locks; a run must be possible there.
        Err(TryLockError::Error(error)) if error.kind() != std::io::ErrorKind::Unsupported => {
            Err(Error::file("lock", path)(error))
        }
        _ => Ok(file),
    }
}

/// All records of a file.
///
/// # Errors
/// The file cannot be read, or holds other things than records. A last line without its end is left out.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    let mut records = Vec::new();
    for_each(&file, path, |record, _| {
        records.push(record);
        true
    })?;
    Ok(records)
}

/// Bytes of the records of the steps before `step`.
fn length_before(file: &File, path: &Path, step: u64) -> Result<u64> {
    let mut length = 0;
    for_each(file, path, |record, end| {
        if record.step < step {
            length = end;
        }
        record.step < step
    })?;
    Ok(length)
}

/// Calls `visit` with each record and the offset of its line's end, until it returns false.
fn for_each(file: &File, path: &Path, mut visit: impl FnMut(Record, u64) -> bool) -> Result<()> {
    let mut reader = BufReader::new(file);
    let (mut line, mut end) = (Vec::new(), 0);
    for number in 1.. {
        line.clear();
        end += reader.read_until(b'\n', &mut line).map_err(Error::file("read", path))? as u64;
        if line.last() != Some(&b'\n') {
            break; // The end, or a line that was being written when the run ended.
        }
        let record = serde_json::from_slice(&line).map_err(|error| {
            let problem = format!("not a record of metrics ({error}); choose another file");
            Error::Metrics { path: path.to_owned(), line: number, problem }
        })?;
        if !visit(record, end) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(step: u64, loss: f64) -> Record {
        Record { step, loss, norm: 1.5, learning_rate: 1e-3, tokens: (step + 1) * 64, tokens_per_second: 1e3 / 3.0 }
    }

    #[test]
    fn a_resumed_run_has_every_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut metrics = Metrics::create(&path).unwrap();
        for step in 0..10 {
            metrics.write(&record(step, 2.0)).unwrap();
            assert_eq!(read(&path).unwrap().len() as u64, step + 1, "readable at once");
        }
        // Killed in the middle of a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"step\":10,\"lo").unwrap();
        assert_eq!(read(&path).unwrap().len(), 10);
        drop(metrics);
        let mut metrics = Metrics::resume(&path, 6).unwrap();
        for step in 6..12 {
            metrics.write(&record(step, 1.0)).unwrap();
        }
        let expected: Vec<_> = (0..12).map(|step| record(step, if step < 6 { 2.0 } else { 1.0 })).collect();
        assert_eq!(read(&path).unwrap(), expected);
        drop(metrics);
        // From the end, with half a line after it.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{").unwrap();
        Metrics::resume(&path, 12).unwrap().write(&record(12, 0.5)).unwrap();
        assert_eq!(read(&path).unwrap().len(), 13);
    }

    #[test]
    fn a_foreign_file_is_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "my notes\n").unwrap();
        let message = Metrics::resume(&path, 0).unwrap_err().to_string();
        assert!(message.contains("line 1"), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
        Metrics::resume(&folder.path().join("new.jsonl"), 5).unwrap();
    }
}
