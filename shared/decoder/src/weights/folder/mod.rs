//! Weights from a folder in Hugging Face layout: one safetensors file, or shards with an index.
//!
//! [`Folder::open`] reads and checks headers only (`header.rs`) of the files that the folder's index names (`files.rs`).
//! [`Weights::read`] then fetches only the bytes of the part asked for.

pub(crate) mod files;
mod header;

use super::cut::Cut;
use super::element::{self, Element, Elements};
use super::mismatch::{self, Stored};
use super::positioned::Blocks;
use super::{Part, WeightSpec, Weights};
use crate::error::{Error, Result};
use candle_core::{DType, Device, Tensor};
use files::Files;
use header::{Entry, Shard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An opened folder of safetensors files.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    shards: Vec<Shard>,
    /// Weight → number of its shard.
    weights: BTreeMap<String, usize>,
    bytes_read: AtomicU64,
}

impl Folder {
    /// Opens all files and checks that their headers, their lengths and the index agree. No weight is read.
    ///
    /// # Errors
    /// Files are missing, cut off, damaged or something else than safetensors; the index names the wrong shard; a weight is
    /// in two shards.
    pub fn open(path: &Path) -> Result<Self> {
        let files = Files::find(path)?;
        let shards: Vec<Shard> = files.names.iter().map(|name| Shard::open(&path.join(name))).collect::<Result<_>>()?;
        let weights = assign(path, &files, &shards)?;
        Ok(Self { path: path.to_owned(), shards, weights, bytes_read: AtomicU64::new(0) })
    }

    /// Names of all weights, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.weights.keys().map(String::as_str)
    }

    /// Shape of a weight, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|(_, entry)| entry.shape.as_slice())
    }

    /// Bytes of weights read from the files so far, headers not counted.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    fn find(&self, name: &str) -> Option<(&Shard, &Entry)> {
        let shard = self.shards.get(*self.weights.get(name)?)?;
        Some((shard, shard.entries.get(name)?))
    }

    fn stored(&self, name: &str) -> Option<Stored<'_>> {
        let (_, entry) = self.find(name)?;
        Some(Stored { shape: &entry.shape, unreadable: entry.dtype.as_ref().err().map(String::as_str) })
    }
}

/// Which shard each weight is read from: the one the index names, else the only one that has it.
fn assign(folder: &Path, files: &Files, shards: &[Shard]) -> Result<BTreeMap<String, usize>> {
    let names: Vec<&String> = files.names.iter().collect();
    let fault = |name: &str, found: String, expected: String| Error::Weight {
        origin: folder.display().to_string(),
        name: name.into(),
        found,
        expected,
    };
    let mut weights = BTreeMap::new();
    for (weight, file) in &files.map {
        let holders: Vec<usize> =
            (0..shards.len()).filter(|&shard| shards[shard].entries.contains_key(weight)).collect();
        let Some(&shard) = holders.iter().find(|&&shard| names[shard] == file) else {
            let found =
                holders.first().map_or_else(|| "in none of the files".into(), |&shard| format!("in {}", names[shard]));
            return Err(fault(weight, found, format!("in {file} by {}; download both again", files::INDEX)));
        };
        weights.insert(weight.clone(), shard);
    }
    for (shard, content) in shards.iter().enumerate() {
        for weight in content.entries.keys().filter(|weight| !files.map.contains_key(*weight)) {
            if let Some(other) = weights.insert(weight.clone(), shard) {
                let found = format!("in both {} and {}", names[other], names[shard]);
                return Err(fault(
                    weight,
                    found,
                    "each weight in one file; remove the file that does not belong".into(),
                ));
            }
        }
    }
    Ok(weights)
}

impl Weights for Folder {
    fn origin(&self) -> String {
        self.path.display().to_string()
    }

    fn contains(&self, name: &str) -> bool {
        self.weights.contains_key(name)
    }

    fn check(&self, specs: &[WeightSpec]) -> Result<()> {
        mismatch::check(&self.origin(), specs, |name| self.stored(name), || self.names())
    }

    fn read(&self, spec: &WeightSpec, part: &Part, dtype: DType, device: &Device) -> Result<Tensor> {
        self.check(std::slice::from_ref(spec))?;
        let cut = Cut::new(&self.origin(), spec, part)?;
        let Some((shard, Entry { dtype: Ok(stored), start, .. })) = self.find(&spec.name) else {
            return Err(Error::Model { origin: self.origin(), problem: format!("cannot read {}", spec.name) });
        };
        let slice = Slice { shard, stored: *stored, start: *start, cut, bytes_read: &self.bytes_read };
        element::tensor(&slice, part.shape(&spec.shape), dtype, device)
    }
}

/// A part of one weight in a file.
struct Slice<'a> {
    shard: &'a Shard,
    stored: DType,
    start: u64,
    cut: Cut,
    bytes_read: &'a AtomicU64,
}

impl Elements for Slice<'_> {
    fn append_to<T: Element>(&self, values: &mut Vec<T>) -> Result<()> {
        let blocks = Blocks { elements: 1, bytes: self.stored.size_in_bytes() };
        let runs = self.cut.runs();
        let bytes = self.shard.file.read_runs(self.start, blocks, runs, |span| span.decode(self.stored, values))?;
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}
