//! The numbers a weight is made of: as bytes in a file, and as the type asked for.
//!
//! Stored f16, bf16 and f32 are widened to f32 (exact) and rounded once to the type asked for; stored f64 is rounded directly.

use crate::error::{Error, Result};
use candle_core::{CpuStorage, DType, Device, Storage, Tensor, WithDType};
use half::{bf16, f16};
use ledger::Kind;

/// One of the four floating-point types.
pub(super) trait Element: WithDType {
    /// Bytes of one number.
    const BYTES: usize;
    /// From [`Self::BYTES`] little-endian bytes.
    fn from_le(bytes: &[u8]) -> Self;
    /// Appends its little-endian bytes.
    fn append_le(self, bytes: &mut Vec<u8>);
    /// Rounds to nearest, ties to even.
    fn from_single(value: f32) -> Self;
    /// Rounds to nearest, ties to even.
    fn from_double(value: f64) -> Self;
    /// As another type.
    fn convert<T: Element>(self) -> T;
}

macro_rules! element {
    ($type:ty, single: $single:expr, double: $double:expr, convert: |$value:ident| $convert:expr) => {
        impl Element for $type {
            const BYTES: usize = size_of::<$type>();

            fn from_le(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                Self::from_le_bytes(array)
            }

            fn append_le(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn from_single(value: f32) -> Self {
                $single(value)
            }

            fn from_double(value: f64) -> Self {
                $double(value)
            }

            fn convert<T: Element>(self) -> T {
                let $value = self;
                $convert
            }
        }
    };
}

element!(f64, single: f64::from, double: |value| value, convert: |value| T::from_double(value));
element!(f32, single: |value| value, double: |value| value as f32, convert: |value| T::from_single(value));
element!(f16, single: f16::from_f32, double: f16::from_f64, convert: |value| T::from_single(value.to_f32()));
element!(bf16, single: bf16::from_f32, double: bf16::from_f64, convert: |value| T::from_single(value.to_f32()));

/// Whether numbers of this type can be read and held as weights.
pub(super) fn supported(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

/// Appends the numbers in `bytes`, stored as `stored` ([`supported`]), to `values`.
pub(super) fn decode<T: Element>(stored: DType, bytes: &[u8], values: &mut Vec<T>) -> Result<()> {
    fn append<S: Element, T: Element>(bytes: &[u8], values: &mut Vec<T>) {
        values.extend(bytes.chunks_exact(S::BYTES).map(|number| S::from_le(number).convert::<T>()));
    }
    match stored {
        DType::F64 => append::<f64, T>(bytes, values),
        DType::F32 => append::<f32, T>(bytes, values),
        DType::F16 => append::<f16, T>(bytes, values),
        DType::BF16 => append::<bf16, T>(bytes, values),
        other => return Err(unsupported(other)),
    }
    Ok(())
}

/// Something that can write a weight's elements, in order, as any type.
pub(super) trait Elements {
    /// Appends all elements to `values`, whose capacity is theirs already.
    fn append_to<T: Element>(&self, values: &mut Vec<T>) -> Result<()>;
}

/// The one place where a weight's memory is allocated, as [`Kind::Weights`]; whatever `elements` needs meanwhile is [`Kind::Host`].
pub(super) fn tensor(elements: &impl Elements, shape: Vec<usize>, dtype: DType, device: &Device) -> Result<Tensor> {
    match dtype {
        DType::F64 => typed_tensor::<f64>(elements, shape, device),
        DType::F32 => typed_tensor::<f32>(elements, shape, device),
        DType::F16 => typed_tensor::<f16>(elements, shape, device),
        DType::BF16 => typed_tensor::<bf16>(elements, shape, device),
        other => Err(unsupported(other)),
    }
}

fn typed_tensor<T: Element>(elements: &impl Elements, shape: Vec<usize>, device: &Device) -> Result<Tensor> {
    let mut values = Vec::<T>::new();
    {
        // On the CPU this vector becomes the tensor; elsewhere it is a buffer that is copied from.
        let _scope = ledger::scope(if device.is_cpu() { Kind::Weights } else { Kind::Host });
        let count = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        count.and_then(|count| values.try_reserve_exact(count).ok()).ok_or_else(|| Error::Setting {
            name: "memory for a weight",
            found: format!("shape {shape:?} of {}", T::DTYPE.as_str()),
            expected: "more than this machine can allocate; use a smaller model or split it over more ranks".into(),
        })?;
    }
    {
        let _scope = ledger::scope(Kind::Host);
        elements.append_to(&mut values)?;
    }
    // The elements are the weight; on the CPU they are allocated already, and the handle around them is the host's.
    let _scope = ledger::scope(if device.is_cpu() { Kind::Host } else { Kind::Weights });
    Ok(Tensor::from_vec(values, shape, device)?)
}

/// Hands the elements of `tensor` (on the CPU, any [`supported`] type) to `write` as little-endian bytes, in pieces.
pub(super) fn encode(tensor: &Tensor, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    fn pieces<T: Element>(
        storage: &CpuStorage,
        from: usize,
        to: usize,
        write: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let values = storage.as_slice::<T>()?.get(from..to).unwrap_or_default();
        let mut bytes = Vec::new();
        for piece in values.chunks(1 << 16) {
            bytes.clear();
            piece.iter().for_each(|value| value.append_le(&mut bytes));
            write(&bytes)?;
        }
        Ok(())
    }
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cpu(storage), Some((from, to))) = (&*storage, layout.contiguous_offsets()) else {
        return Err(candle_core::Error::Msg("only a contiguous tensor on the CPU can be written".into()).into());
    };
    match tensor.dtype() {
        DType::F64 => pieces::<f64>(storage, from, to, &mut write),
        DType::F32 => pieces::<f32>(storage, from, to, &mut write),
        DType::F16 => pieces::<f16>(storage, from, to, &mut write),
        DType::BF16 => pieces::<bf16>(storage, from, to, &mut write),
        other => Err(unsupported(other)),
    }
}

/// The error for any other type.
pub(super) fn unsupported(dtype: DType) -> Error {
    Error::Setting {
        name: "dtype",
        found: dtype.as_str().into(),
        expected: "weights are held as f64, f32, f16 or bf16".into(),
    }
}
