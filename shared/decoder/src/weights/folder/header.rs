//! Opens one safetensors file: the header is read and checked, the data is not touched.

use crate::error::{Error, Result};
use crate::weights::content::mistaken_for_weights;
use crate::weights::positioned::PositionedFile;
use candle_core::DType;
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use std::collections::BTreeMap;
use std::path::Path;

/// Largest header that is read, in bytes: the format's own limit.
const HEADER_LIMIT: u64 = 100_000_000;

/// A safetensors file whose header is consistent with its length.
#[derive(Debug)]
pub(super) struct Shard {
    /// Open for reading.
    pub(super) file: PositionedFile,
    /// What is in it.
    pub(super) entries: BTreeMap<String, Entry>,
}

/// One weight in a safetensors file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its shape.
    pub(super) shape: Vec<usize>,
    /// Its type; the name of the type if that is none that weights are read from.
    pub(super) dtype: Result<DType, String>,
    /// Where its data starts, in bytes from the start of the file.
    pub(super) start: u64,
}

impl Shard {
    /// Opens `path` and checks that header and file agree.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = PositionedFile::open(path)?;
        let (header, data) = read_header(&file)?;
        let expected = data.checked_add(header.data_len() as u64);
        if expected != Some(file.length()) {
            let expected = expected.map_or_else(|| "more than 2^64".into(), |expected| expected.to_string());
            return Err(Error::Model {
                origin: file.origin(),
                problem: format!(
                    "has {} bytes, but its header describes {expected}; it was cut off or damaged, download it again",
                    file.length()
                ),
            });
        }
        let entries = header.tensors().into_iter().map(|(name, info)| {
            let start = data + info.data_offsets.0 as u64;
            (name, Entry { shape: info.shape.clone(), dtype: readable(info.dtype), start })
        });
        Ok(Self { entries: entries.collect(), file })
    }
}

/// The header, checked within itself (offsets neither overlap nor leave gaps, sizes fit shapes and types), and where the data starts.
fn read_header(file: &PositionedFile) -> Result<(Metadata, u64)> {
    let fault = |problem: String| {
        let other = mistaken_for_weights(file).map(str::to_owned);
        Error::Model {
            origin: file.origin(),
            problem: other.unwrap_or(format!("is not a safetensors file: {problem}")),
        }
    };
    let length = file.length();
    if length < 8 {
        return Err(fault(format!("it has only {length} bytes")));
    }
    let mut size = [0; 8];
    file.read(&mut size, 0)?;
    let size = u64::from_le_bytes(size);
    if size > HEADER_LIMIT.min(length - 8) {
        return Err(fault(format!(
            "its header would have {size} bytes, the whole file has {length}, a header at most {HEADER_LIMIT}"
        )));
    }
    let mut json = vec![0; size as usize];
    file.read(&mut json, 8)?;
    let header = serde_json::from_slice(&json).map_err(|error| fault(format!("its header is wrong: {error}")))?;
    Ok((header, 8 + size))
}

/// The type that data is read as, or the name of one that is not supported.
fn readable(dtype: Dtype) -> Result<DType, String> {
    match dtype {
        Dtype::F64 => Ok(DType::F64),
        Dtype::F32 => Ok(DType::F32),
        Dtype::F16 => Ok(DType::F16),
        Dtype::BF16 => Ok(DType::BF16),
        other => Err(other.to_string()),
    }
}
