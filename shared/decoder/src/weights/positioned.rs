//! Positioned reads: only the bytes that hold the elements asked for.
//!
//! Runs of elements that lie close together are fetched in one read (a *span*): a system call costs about as much as copying
//! [`GAP`] bytes. A span never holds more than [`SPAN`] elements, which bounds the buffer for any part of any weight.

use super::element::{self, Element};
use crate::error::{Error, Result};
use candle_core::DType;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most elements of one read.
const SPAN: usize = 1 << 18;
/// Bytes between two runs that are rather read along than skipped.
const GAP: usize = 4096;
/// Most runs of one read.
const RUNS: usize = 4096;

/// How elements lie in the file: blocks of so many elements in so many bytes; one element per block unless quantised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Elements of a block; divides [`SPAN`].
    pub(super) elements: usize,
    /// Bytes of a block.
    pub(super) bytes: usize,
}

/// What one read fetched.
#[derive(Debug)]
pub(super) struct Span<'a> {
    /// Whole blocks.
    pub(super) bytes: &'a [u8],
    /// The runs in it, as elements counted from its first.
    pub(super) runs: &'a [Range<usize>],
}

impl Span<'_> {
    /// Appends the numbers of all runs; for spans of unquantised numbers.
    pub(super) fn decode<T: Element>(&self, stored: DType, values: &mut Vec<T>) -> Result<()> {
        let width = stored.size_in_bytes();
        self.runs.iter().try_for_each(|run| {
            let bytes = self.bytes.get(run.start * width..run.end * width).unwrap_or_default();
            element::decode(stored, bytes, values)
        })
    }
}

/// A file open for positioned reads, by any number of threads at once.
#[derive(Debug)]
pub(super) struct PositionedFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl PositionedFile {
    /// Opens `path`, which must be a regular file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        // Asked before it is opened: opening a pipe would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(Error::file("open", path))?;
        if !metadata.is_file() {
            return Err(Error::Model { origin: path.display().to_string(), problem: "is not a file".into() });
        }
        let file = File::open(path).map_err(Error::file("open", path))?;
        Ok(Self { path: path.to_owned(), file, length: metadata.len() })
    }

    /// Where it is, for messages.
    pub(super) fn origin(&self) -> String {
        self.path.display().to_string()
    }

    /// Bytes in it.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` from `offset` on.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(&self.file, buffer, offset).map_err(Error::file("read", &self.path))
    }

    /// Reads the blocks that hold `runs`, counted from `start` on, and hands them over span by span; returns the bytes read.
    pub(super) fn read_runs(
        &self,
        start: u64,
        blocks: Blocks,
        runs: impl Iterator<Item = Range<usize>>,
        mut each: impl FnMut(Span<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut buffer = Vec::new();
        let mut bytes_read = 0;
        let mut read = |pending: &mut Vec<Range<usize>>| {
            let (Some(first), Some(last)) = (pending.first(), pending.last()) else { return Ok(()) };
            let (first, last) = (first.start / blocks.elements, last.end.div_ceil(blocks.elements));
            buffer.resize((last - first) * blocks.bytes, 0);
            self.read(&mut buffer, start + (first * blocks.bytes) as u64)?;
            bytes_read += buffer.len() as u64;
            let base = first * blocks.elements;
            pending.iter_mut().for_each(|run| *run = run.start - base..run.end - base);
            each(Span { bytes: &buffer, runs: pending })?;
            pending.clear();
            Ok::<_, Error>(())
        };
        let mut pending: Vec<Range<usize>> = Vec::new();
        for run in runs.flat_map(pieces) {
            if !pending.is_empty() && (pending.len() == RUNS || !joins(&pending, &run, blocks)) {
                read(&mut pending)?;
            }
            match pending.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => pending.push(run),
            }
        }
        read(&mut pending)?;
        Ok(bytes_read)
    }
}

/// Whether `run` is fetched by the same read as the runs before it.
fn joins(pending: &[Range<usize>], run: &Range<usize>, blocks: Blocks) -> bool {
    let (Some(first), Some(last)) = (pending.first(), pending.last()) else { return true };
    run.start >= last.end
        && (run.start - last.end) / blocks.elements * blocks.bytes <= GAP
        && run.end - first.start / blocks.elements * blocks.elements <= SPAN
}

/// A run, cut at the multiples of [`SPAN`] (block boundaries, so that no block is read twice); nothing if it is empty.
fn pieces(run: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = run.start;
    std::iter::from_fn(move || {
        let piece = at..run.end.min((at / SPAN + 1) * SPAN);
        at = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Fills `buffer` from `offset` on, without moving a file position that other threads share.
#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Fills `buffer` from `offset` on; the file position moves, but nothing here relies on it.
#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
