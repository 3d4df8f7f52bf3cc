//! Reads a GGUF file's header: metadata and where the tensors are.
//!
//! candle parses it; before that, one pass over the metadata refuses what candle would allocate for, divide by or recurse into
//! without a limit.

use crate::error::{Error, Result};
use crate::weights::content::mistaken_for_weights;
use crate::weights::positioned::PositionedFile;
use candle_core::quantized::gguf_file::Content;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Most entries of metadata, most tensors, most elements of an array: far above any real file.
const ENTRIES: u64 = 1 << 16;
const TENSORS: u64 = 1 << 20;
const ARRAY: u64 = 1 << 22;
/// Longest key, in bytes, by the format.
const KEY: u64 = 65_535;
/// Largest alignment of the data, in bytes.
const ALIGNMENT: u32 = 1 << 20;

/// Reads the header of `path`.
pub(super) fn read(path: &Path, file: &PositionedFile) -> Result<Content> {
    let fault = |problem: String| Error::Model { origin: file.origin(), problem };
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(Error::file("open", path))?);
    let mut magic = [0; 4];
    if file.length() < 24 || reader.read_exact(&mut magic).is_err() || magic != *b"GGUF" {
        let other = mistaken_for_weights(file).map(str::to_owned);
        return Err(fault(other.unwrap_or_else(|| "is not a GGUF file: it does not begin with GGUF".into())));
    }
    inspect(&mut reader, file.length()).map_err(|problem| fault(format!("is not a usable GGUF file: {problem}")))?;
    reader.rewind().map_err(Error::file("read", path))?;
    Content::read(&mut reader).map_err(|error| fault(format!("is not a usable GGUF file: {error}")))
}

/// Walks over counts and metadata, from behind the magic on.
fn inspect(reader: &mut (impl Read + Seek), length: u64) -> Result<(), String> {
    let mut walk = Walk { reader, length, wide: true };
    let version = walk.u32()?;
    if !(1..=3).contains(&version) {
        let big_endian = if version.swap_bytes() <= 3 { " (written for big-endian machines)" } else { "" };
        return Err(format!("version {version}{big_endian}; 1, 2 and 3 are known"));
    }
    walk.wide = version > 1;
    let (tensors, entries) = (walk.count()?, walk.count()?);
    if tensors > TENSORS || entries > ENTRIES {
        return Err(format!("it would have {tensors} tensors and {entries} entries of metadata"));
    }
    for _ in 0..entries {
        let key = walk.key()?;
        let value_type = walk.u32()?;
        if key == b"general.alignment" && value_type == 4 {
            let alignment = walk.u32()?;
            if !alignment.is_power_of_two() || alignment > ALIGNMENT {
                return Err(format!("general.alignment = {alignment}: a power of two up to {ALIGNMENT} is expected"));
            }
        } else if key == b"general.alignment" {
            return Err("general.alignment is not a u32".into());
        } else {
            walk.skip_value(value_type, &key, 0)?;
        }
    }
    Ok(())
}

/// Reads forward through the metadata, never past the end.
struct Walk<'a, R> {
    reader: &'a mut R,
    length: u64,
    /// Whether counts are 64 bits wide (from version 2 on).
    wide: bool,
}

impl<R: Read + Seek> Walk<'_, R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|_| "it was cut off within its header".to_owned())?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn count(&mut self) -> Result<u64, String> {
        if self.wide { self.bytes().map(u64::from_le_bytes) } else { self.u32().map(u64::from) }
    }

    fn key(&mut self) -> Result<Vec<u8>, String> {
        let length = self.count()?;
        if length > KEY {
            return Err(format!("a key of {length} bytes"));
        }
        let mut key = vec![0; length as usize];
        self.reader.read_exact(&mut key).map_err(|_| "it was cut off within its header".to_owned())?;
        Ok(key)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), String> {
        let cut_off = |_| "it was cut off within its header".to_owned();
        let rest = self.length.saturating_sub(self.reader.stream_position().map_err(cut_off)?);
        if bytes > rest {
            return Err(format!("{bytes} bytes of metadata are announced, {rest} are left; it was cut off or damaged"));
        }
        // Relative and small, so that a buffered reader keeps its buffer.
        match i64::try_from(bytes) {
            Ok(bytes) => self.reader.seek_relative(bytes).map_err(cut_off),
            Err(_) => self.reader.seek(SeekFrom::End(0)).map(drop).map_err(cut_off),
        }
    }

    fn skip_value(&mut self, value_type: u32, key: &[u8], depth: u32) -> Result<(), String> {
        let name = || String::from_utf8_lossy(key).into_owned();
        match (value_type, scalar_bytes(value_type)) {
            (_, Some(bytes)) => self.skip(bytes),
            (8, _) => {
                let length = self.count()?;
                self.skip(length)
            }
            (9, _) if depth < 4 => {
                let (element_type, count) = (self.u32()?, self.count()?);
                if count > ARRAY {
                    return Err(format!("{} would have {count} elements", name()));
                }
                match scalar_bytes(element_type) {
                    Some(bytes) => self.skip(count * bytes),
                    None => (0..count).try_for_each(|_| self.skip_value(element_type, key, depth + 1)),
                }
            }
            (9, _) => Err(format!("{} is nested too deeply", name())),
            _ => Err(format!("{} has the unknown type {value_type}", name())),
        }
    }
}

/// Bytes of a value that is neither text (8) nor an array (9).
fn scalar_bytes(value_type: u32) -> Option<u64> {
    match value_type {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}
