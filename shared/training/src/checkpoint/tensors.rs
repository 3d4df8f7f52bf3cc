//! Named tensors as a safetensors file, written and read a tensor at a time.
//!
//! The layout: 8 bytes with the header's length, a JSON header with type, shape and place of each tensor, the elements.

use crate::{Error, Named, Result};
use candle_core::{DType, Device, Tensor, WithDType};
use half::{bf16, f16};
use safetensors::tensor::Metadata;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// Elements that are brought to the host at once.
const CHUNK: usize = 1 << 18;

/// Writes all `tensors`.
pub(super) fn write(tensors: &Named, out: &mut dyn Write) -> io::Result<()> {
    let mut in_order: Vec<_> = tensors.iter().collect();
    // Wide types first, then by name: so every tensor starts at a multiple of its element's size, which readers that map the file need.
    in_order.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.dtype().size_in_bytes()), (*name).clone()));
    let mut header = Map::new();
    let mut offset = 0;
    for (name, tensor) in &in_order {
        let end = offset + tensor.elem_count() * tensor.dtype().size_in_bytes();
        let dtype: safetensors::Dtype = tensor.dtype().into();
        header.insert(name.to_string(), json!({"dtype": dtype, "shape": tensor.dims(), "data_offsets": [offset, end]}));
        offset = end;
    }
    let mut header = Value::Object(header).to_string();
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for (_, tensor) in in_order {
        write_elements(tensor, out)?;
    }
    Ok(())
}

fn write_elements(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let tensor = tensor.detach().flatten_all().map_err(io::Error::other)?;
    match tensor.dtype() {
        DType::F64 => write_as(&tensor, out, f64::to_le_bytes),
        DType::F32 => write_as(&tensor, out, f32::to_le_bytes),
        DType::BF16 => write_as(&tensor, out, bf16::to_le_bytes),
        DType::F16 => write_as(&tensor, out, f16::to_le_bytes),
        other => Err(io::Error::other(format!("{} tensors are not saved", other.as_str()))),
    }
}

fn write_as<T: WithDType, const N: usize>(
    tensor: &Tensor,
    out: &mut dyn Write,
    bytes: fn(T) -> [u8; N],
) -> io::Result<()> {
    let count = tensor.elem_count();
    for start in (0..count).step_by(CHUNK) {
        let chunk = tensor.narrow(0, start, CHUNK.min(count - start)).and_then(|chunk| chunk.to_vec1::<T>());
        let chunk: Vec<u8> = chunk.map_err(io::Error::other)?.into_iter().flat_map(bytes).collect();
        out.write_all(&chunk)?;
    }
    Ok(())
}

/// Reads all tensors of a file that has been verified.
pub(super) fn read(path: &Path, device: &Device) -> Result<Named> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    let size = file.metadata().map_err(Error::file("read", path))?.len();
    let malformed = |problem: String| {
        let folder = path.parent().unwrap_or(path);
        Error::Checkpoint { path: folder.to_owned(), problem: format!("{} is malformed: {problem}", path.display()) }
    };
    let mut file = BufReader::new(file);
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(Error::file("read", path))?;
    let length = u64::from_le_bytes(length);
    if length > size.saturating_sub(8) {
        return Err(malformed(format!("a header of {length} bytes in a file of {size}")));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(Error::file("read", path))?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|error| malformed(error.to_string()))?;
    if header.data_len() as u64 != size - 8 - length {
        return Err(malformed(format!("{} bytes of elements in a file of {size}", header.data_len())));
    }
    let mut tensors = Named::new();
    for name in header.offset_keys() {
        let Some(info) = header.info(&name) else { continue };
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0; end - start];
        file.read_exact(&mut bytes).map_err(Error::file("read", path))?;
        let tensor = Tensor::from_raw_buffer(&bytes, DType::try_from(info.dtype)?, &info.shape, device)?;
        tensors.insert(name.into(), tensor);
    }
    Ok(tensors)
}
