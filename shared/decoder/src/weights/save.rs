//! Writes a folder in Hugging Face layout that [`Folder`](super::folder::Folder) and other software read.

use super::element;
use crate::error::{Error, Result};
use candle_core::{DType, Device, Tensor};
use ledger::Kind;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes `config.json` and `model.safetensors` into `folder`, which is made if need be.
///
/// Each file appears complete or not at all: it is written beside its place, flushed to the disk and renamed. Besides the
/// tensors themselves only the one being written is held.
///
/// # Errors
/// A name occurs twice, a type is none of f64, f32, f16, bf16, or a file cannot be written.
pub fn save_folder(
    folder: &Path,
    config_json: &str,
    tensors: impl IntoIterator<Item = (String, Tensor)>,
) -> Result<()> {
    let _scope = ledger::scope(Kind::Host);
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    save_safetensors(&folder.join("model.safetensors"), tensors)?;
    write_atomically(&folder.join("config.json"), |file, path| {
        file.write_all(config_json.as_bytes()).map_err(Error::file("write", path))
    })
}

/// Writes one safetensors file, atomically, tensors in the order of their names.
///
/// # Errors
/// As [`save_folder`].
pub fn save_safetensors(path: &Path, tensors: impl IntoIterator<Item = (String, Tensor)>) -> Result<()> {
    let mut tensors: Vec<(String, Tensor)> = tensors.into_iter().collect();
    // Wide types first, so that all data is aligned; then by name, so that equal models make equal files.
    tensors.sort_by(|(left_name, left), (right_name, right)| {
        right.dtype().size_in_bytes().cmp(&left.dtype().size_in_bytes()).then_with(|| left_name.cmp(right_name))
    });
    let header = header(path, &tensors)?;
    write_atomically(path, |file, path| {
        file.write_all(&(header.len() as u64).to_le_bytes()).map_err(Error::file("write", path))?;
        file.write_all(&header).map_err(Error::file("write", path))?;
        tensors.iter().try_for_each(|(_, tensor)| {
            element::encode(&tensor.to_device(&Device::Cpu)?, |bytes| {
                file.write_all(bytes).map_err(Error::file("write", path))
            })
        })
    })
}

/// The JSON that says which tensor lies where, padded to 8 bytes.
fn header(path: &Path, tensors: &[(String, Tensor)]) -> Result<Vec<u8>> {
    let fault = |problem: String| Error::Model { origin: path.display().to_string(), problem };
    let mut end = 0;
    let mut infos = Vec::with_capacity(tensors.len());
    let mut names = std::collections::HashSet::new();
    for (name, tensor) in tensors {
        if !names.insert(name) {
            return Err(fault(format!("two tensors are named {name}")));
        }
        let dtype = match tensor.dtype() {
            DType::F64 => Dtype::F64,
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            other => return Err(element::unsupported(other)),
        };
        let start = end;
        end += tensor.elem_count() * tensor.dtype().size_in_bytes();
        infos.push((name.clone(), TensorInfo { dtype, shape: tensor.dims().to_vec(), data_offsets: (start, end) }));
    }
    // Other readers look at this entry to know which framework's layout the tensors have.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let header = Metadata::new(Some(metadata), infos).map_err(|error| fault(error.to_string()))?;
    let mut header = serde_json::to_vec(&header).map_err(|error| fault(error.to_string()))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

/// Writes `path` through a file beside it; if anything fails, `path` stays as it was and nothing else remains. Through a link
/// the file that it points to is written; what is there and is no file (a device, a folder) is refused, not replaced.
fn write_atomically(path: &Path, write: impl FnOnce(&mut BufWriter<File>, &Path) -> Result<()>) -> Result<()> {
    let target = match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            let problem = "is there and is not a file; give the name of a file".into();
            return Err(Error::Model { origin: path.display().to_string(), problem });
        }
        Ok(_) => std::fs::canonicalize(path).map_err(Error::file("read", path))?,
        Err(_) => path.to_owned(),
    };
    let path = target.as_path();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = File::create(&partial).map_err(Error::file("create", &partial)).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        write(&mut file, &partial)?;
        file.flush().map_err(Error::file("write", &partial))?;
        file.get_ref().sync_all().map_err(Error::file("write", &partial))?;
        drop(file);
        std::fs::rename(&partial, path).map_err(Error::file("write", path))
    });
    if written.is_err() {
        // The first error is the one worth reporting.
        let _ = std::fs::remove_file(&partial);
        return written;
    }
    // The new name is durable once the directory is; not every file system can do this, and none needs it to read on.
    if let Some(Ok(folder)) = path.parent().map(File::open) {
        let _ = folder.sync_all();
    }
    Ok(())
}
