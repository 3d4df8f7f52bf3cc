//! Weights from a GGUF file, under their Hugging Face names and in Hugging Face's order.
//!
//! All types that candle dequantises are read. Only the blocks that hold the part asked for are fetched and dequantised, to
//! f32, then rounded to the type asked for.

mod header;
mod names;
mod unpermute;

use super::cut::Cut;
use super::element::{self, Element, Elements};
use super::mismatch::{self, Stored};
use super::positioned::{Blocks, PositionedFile, Span};
use super::{Part, WeightSpec, Weights};
use crate::error::{Error, Result};
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{TensorInfo, Value};
use candle_core::{DType, Device, Storage, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use unpermute::Unpermute;

/// An opened GGUF file.
#[derive(Debug)]
pub struct Gguf {
    file: PositionedFile,
    metadata: HashMap<String, Value>,
    entries: BTreeMap<String, Entry>,
    bytes_read: AtomicU64,
}

/// One tensor of the file.
#[derive(Debug)]
struct Entry {
    shape: Vec<usize>,
    dtype: GgmlDType,
    /// Name of the type, if it cannot be dequantised.
    unreadable: Option<String>,
    /// Where its data starts, in bytes from the start of the file.
    start: u64,
    /// How its rows were reordered, if they were.
    order: Option<Unpermute>,
}

impl Gguf {
    /// Opens a file and checks its header. No weight is read.
    ///
    /// # Errors
    /// The file is something else, cut off or damaged, or one of several parts.
    pub fn open(path: &Path) -> Result<Self> {
        let file = PositionedFile::open(path)?;
        let content = header::read(path, &file)?;
        let fault = |problem: String| Error::Model { origin: file.origin(), problem };
        if let Some(count) = content.metadata.get("split.count").and_then(unsigned).filter(|count| *count > 1) {
            return Err(fault(format!("is one of {count} parts; merge them with `llama-gguf-split --merge`")));
        }
        let mut entries = BTreeMap::new();
        for (name, info) in &content.tensor_infos {
            let entry = Entry::new(name, info, content.tensor_data_offset, file.length(), &content.metadata)
                .map_err(|problem| fault(format!("tensor {name}: {problem}")))?;
            if entries.insert(names::hugging_face(name), entry).is_some() {
                return Err(fault(format!("two tensors are named {name}")));
            }
        }
        Ok(Self { file, metadata: content.metadata, entries, bytes_read: AtomicU64::new(0) })
    }

    /// The file's metadata: architecture, sizes, tokenizer.
    pub fn metadata(&self) -> &HashMap<String, Value> {
        &self.metadata
    }

    /// Whether the head's weight is the embedding's: GGUF has no setting for it, the head is just not there.
    pub fn tied(&self) -> bool {
        !self.entries.contains_key("lm_head.weight")
    }

    /// Whether the file has a tensor of this GGUF name.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.entries.contains_key(&names::hugging_face(name))
    }

    /// Divisors of the rotary frequencies, `[head_dim / 2]`, which files of Llama 3 carry as a tensor.
    ///
    /// # Errors
    /// The tensor cannot be read.
    pub fn rope_divisors(&self) -> Result<Option<Vec<f32>>> {
        let Some(entry) = self.entries.get("rope_freqs.weight") else { return Ok(None) };
        let shape = entry.shape.clone();
        let cut = Cut::whole(shape.iter().product());
        let tensor = element::tensor(&Slice { gguf: self, entry, cut }, shape, DType::F32, &Device::Cpu)?;
        Ok(Some(tensor.flatten_all()?.to_vec1()?))
    }

    /// Names of all tensors, sorted: the Hugging Face name, or GGUF's own where there is none (`rope_freqs.weight`).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Shape of a tensor, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|entry| entry.shape.as_slice())
    }

    /// Bytes of tensors read from the file so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    fn stored(&self, name: &str) -> Option<Stored<'_>> {
        let entry = self.entries.get(name)?;
        Some(Stored { shape: &entry.shape, unreadable: entry.unreadable.as_deref() })
    }
}

impl Entry {
    fn new(
        name: &str,
        info: &TensorInfo,
        data: u64,
        length: u64,
        metadata: &HashMap<String, Value>,
    ) -> Result<Self, String> {
        let shape = info.shape.dims().to_vec();
        let dtype = info.ggml_dtype;
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let elements = elements.ok_or_else(|| format!("shape {shape:?} is absurd"))?;
        if !shape.last().unwrap_or(&1).is_multiple_of(dtype.block_size()) {
            return Err(format!("rows of shape {shape:?} do not fill blocks of {} ({dtype:?})", dtype.block_size()));
        }
        let bytes = (elements / dtype.block_size()).checked_mul(dtype.type_size()).map(|bytes| bytes as u64);
        let start = data.checked_add(info.offset);
        match start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes)) {
            Some(end) if end <= length => {}
            _ => {
                return Err(format!(
                    "its data would end behind the file's {length} bytes; the file was cut off or damaged"
                ));
            }
        }
        let order = order(name, &shape, dtype, metadata)?;
        let unreadable = (!dequantises(dtype)).then(|| format!("{dtype:?}"));
        Ok(Self { shape, dtype, unreadable, start: start.unwrap_or_default(), order })
    }
}

/// How the rows of q and k were reordered: in files of architecture `llama`, within each head.
fn order(
    name: &str,
    shape: &[usize],
    dtype: GgmlDType,
    metadata: &HashMap<String, Value>,
) -> Result<Option<Unpermute>, String> {
    let is_llama = matches!(metadata.get("general.architecture"), Some(Value::String(name)) if name == "llama");
    let of_head = |weight: &str| {
        name.starts_with("blk.") && [".weight", ".bias"].iter().any(|kind| name.ends_with(&format!(".{weight}{kind}")))
    };
    let (is_q, is_k) = (of_head("attn_q"), of_head("attn_k"));
    if !is_llama || !(is_q || is_k) {
        return Ok(None);
    }
    let count = |key: &str| metadata.get(key).and_then(unsigned).and_then(|count| usize::try_from(count).ok());
    let heads = count("llama.attention.head_count");
    let heads = if is_k { count("llama.attention.head_count_kv").or(heads) } else { heads };
    let heads = heads.filter(|&heads| heads > 0).ok_or("llama.attention.head_count is not there or not one number")?;
    let rows = shape.first().copied().unwrap_or_default();
    if rows % heads != 0 || (rows / heads) % 2 != 0 || rows == 0 {
        return Err(format!("{rows} rows are not {heads} heads of even size"));
    }
    if shape.len() == 1 && dtype.block_size() != 1 {
        return Err(format!("a bias in blocks ({dtype:?}) cannot be reordered"));
    }
    Ok(Some(Unpermute { head_rows: rows / heads, row: shape[1..].iter().product() }))
}

/// An unsigned number of any width.
fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => {
            signed(value).and_then(|value| value.try_into().ok())
        }
        Value::Bool(_) => None,
        other => other.to_u64().ok(),
    }
}

fn signed(value: &Value) -> Option<i64> {
    match *value {
        Value::I8(value) => Some(value.into()),
        Value::I16(value) => Some(value.into()),
        Value::I32(value) => Some(value.into()),
        Value::I64(value) => Some(value),
        _ => None,
    }
}

/// Whether candle dequantises this type.
fn dequantises(dtype: GgmlDType) -> bool {
    !matches!(dtype, GgmlDType::Q8_1 | GgmlDType::Q8K)
}

impl Weights for Gguf {
    fn origin(&self) -> String {
        self.file.origin()
    }

    fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    fn check(&self, specs: &[WeightSpec]) -> Result<()> {
        mismatch::check(&self.origin(), specs, |name| self.stored(name), || self.names())
    }

    fn read(&self, spec: &WeightSpec, part: &Part, dtype: DType, device: &Device) -> Result<Tensor> {
        self.check(std::slice::from_ref(spec))?;
        let cut = Cut::new(&self.origin(), spec, part)?;
        let slice = Slice { gguf: self, entry: &self.entries[&*spec.name], cut };
        element::tensor(&slice, part.shape(&spec.shape), dtype, device)
    }
}

/// A part of one tensor of the file.
struct Slice<'a> {
    gguf: &'a Gguf,
    entry: &'a Entry,
    cut: Cut,
}

impl Elements for Slice<'_> {
    fn append_to<T: Element>(&self, values: &mut Vec<T>) -> Result<()> {
        let Entry { dtype, start, order, .. } = self.entry;
        let blocks = Blocks { elements: dtype.block_size(), bytes: dtype.type_size() };
        let append = |span: Span<'_>| append_span(*dtype, &span, values);
        let bytes = match *order {
            // The cut comes after the reordering: runs are chosen in Hugging Face's order, then looked up in the file's.
            Some(order) => {
                let runs = self.cut.runs().flat_map(|run| order.runs(run));
                self.gguf.file.read_runs(*start, blocks, runs, append)?
            }
            None => self.gguf.file.read_runs(*start, blocks, self.cut.runs(), append)?,
        };
        self.gguf.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Decodes or dequantises the runs of a span.
fn append_span<T: Element>(dtype: GgmlDType, span: &Span<'_>, values: &mut Vec<T>) -> Result<()> {
    let plain = match dtype {
        GgmlDType::F32 => Some(DType::F32),
        GgmlDType::F16 => Some(DType::F16),
        GgmlDType::BF16 => Some(DType::BF16),
        _ => None,
    };
    if let Some(plain) = plain {
        return span.decode(plain, values);
    }
    let elements = span.bytes.len() / dtype.type_size() * dtype.block_size();
    let quantised =
        candle_core::quantized::ggml_file::qtensor_from_ggml(dtype, span.bytes, vec![elements], &Device::Cpu)?;
    let dequantised = quantised.dequantize(&Device::Cpu)?;
    let (storage, _) = dequantised.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        return Err(candle_core::Error::Msg("dequantised to another device than the CPU".into()).into());
    };
    let numbers = storage.as_slice::<f32>()?;
    for run in span.runs {
        values.extend(numbers.get(run.clone()).unwrap_or_default().iter().map(|&number| T::from_single(number)));
    }
    Ok(())
}
