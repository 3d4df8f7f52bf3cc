//! What is done to the elements of a message: copy, combine, write. One place that knows the dtypes.
//!
//! Values travel in the tensor's dtype and are combined in [`Element::Wide`]: f32 for f16 and bf16, else the type
//! itself. Integers wrap around, as in MPI. A NaN survives `Max` and `Min`.

use crate::{ReduceOp, Result};
use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Storage, Tensor};
use half::{bf16, f16};
use std::ops::Range;

/// Elements that are combined at a time in a buffer of wide values that stays in the first-level cache.
const BLOCK: usize = 2048;

/// The dtypes that travel.
pub(crate) const DTYPES: [DType; 6] = [DType::F64, DType::F32, DType::F16, DType::BF16, DType::U32, DType::I64];

/// Whether tensors of `dtype` travel.
pub(crate) fn travels(dtype: DType) -> bool {
    DTYPES.contains(&dtype)
}

trait Element: Copy {
    type Wide: Copy;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn sum(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn max(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn min(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

/// A number that is not equal to itself is NaN: it wins.
macro_rules! element {
    ($type:ty, $wide:ty, $widen:expr, $narrow:expr, $sum:expr) => {
        impl Element for $type {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide {
                ($widen)(self)
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                ($narrow)(wide)
            }
            #[inline(always)]
            fn sum(a: $wide, b: $wide) -> $wide {
                ($sum)(a, b)
            }
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn max(a: $wide, b: $wide) -> $wide {
                if a > b || a != a { a } else { b }
            }
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn min(a: $wide, b: $wide) -> $wide {
                if a < b || a != a { a } else { b }
            }
        }
    };
}

element!(f64, f64, |x| x, |x| x, |a, b| a + b);
element!(f32, f32, |x| x, |x| x, |a, b| a + b);
element!(f16, f32, f16::to_f32, f16::from_f32, |a, b| a + b);
element!(bf16, f32, bf16::to_f32, bf16::from_f32, |a, b| a + b);
element!(u32, u32, |x| x, |x| x, u32::wrapping_add);
element!(i64, i64, |x| x, |x| x, i64::wrapping_add);

/// `$body` with `$slice` bound to the elements of `$storage`; one arm per dtype that travels.
macro_rules! with_elements {
    ($storage:expr, $slice:ident => $body:expr) => {
        match $storage {
            CpuStorage::F64($slice) => $body,
            CpuStorage::F32($slice) => $body,
            CpuStorage::F16($slice) => $body,
            CpuStorage::BF16($slice) => $body,
            CpuStorage::U32($slice) => $body,
            CpuStorage::I64($slice) => $body,
            _ => return Err(candle_core::Error::Msg("this dtype does not travel".to_owned()).into()),
        }
    };
}

/// The same over two storages of one dtype.
macro_rules! with_both {
    ($first:expr, $second:expr, $a:ident, $b:ident => $body:expr) => {
        match ($first, $second) {
            (CpuStorage::F64($a), CpuStorage::F64($b)) => $body,
            (CpuStorage::F32($a), CpuStorage::F32($b)) => $body,
            (CpuStorage::F16($a), CpuStorage::F16($b)) => $body,
            (CpuStorage::BF16($a), CpuStorage::BF16($b)) => $body,
            (CpuStorage::U32($a), CpuStorage::U32($b)) => $body,
            (CpuStorage::I64($a), CpuStorage::I64($b)) => $body,
            _ => return Err(candle_core::Error::Msg("two dtypes meet that differ".to_owned()).into()),
        }
    };
}

/// `into[i] = op(into[i], from[i])`.
fn combine_slices<T: Element>(op: ReduceOp, into: &mut [T], from: &[T]) {
    let pairs = into.iter_mut().zip(from);
    match op {
        ReduceOp::Sum => pairs.for_each(|(a, &b)| *a = T::narrow(T::sum(a.widen(), b.widen()))),
        ReduceOp::Max => pairs.for_each(|(a, &b)| *a = T::narrow(T::max(a.widen(), b.widen()))),
        ReduceOp::Min => pairs.for_each(|(a, &b)| *a = T::narrow(T::min(a.widen(), b.widen()))),
    }
}

/// `into[i] = op(…op(from[0][i], from[1][i])…)`, in wide values from the first to the last, rounded once.
fn combine_all<T: Element>(op: ReduceOp, into: &mut [T], from: &[&[T]]) {
    match from {
        [] => {}
        [only] => into.copy_from_slice(only),
        [first, second] => combine_two(op, into, first, second),
        // The sum is as wide as its summands: it can stay where it belongs.
        [first, second, others @ ..] if size_of::<T>() == size_of::<T::Wide>() => {
            for (index, block) in into.chunks_mut(BLOCK).enumerate() {
                let range = index * BLOCK..index * BLOCK + block.len();
                combine_two(op, block, &first[range.clone()], &second[range.clone()]);
                others.iter().for_each(|other| combine_slices(op, block, &other[range.clone()]));
            }
        }
        [first, others @ ..] => combine_wide(op, into, first, others),
    }
}

/// `into[i] = op(a[i], b[i])`.
fn combine_two<T: Element>(op: ReduceOp, into: &mut [T], a: &[T], b: &[T]) {
    let all = into.iter_mut().zip(a).zip(b);
    match op {
        ReduceOp::Sum => all.for_each(|((out, a), b)| *out = T::narrow(T::sum(a.widen(), b.widen()))),
        ReduceOp::Max => all.for_each(|((out, a), b)| *out = T::narrow(T::max(a.widen(), b.widen()))),
        ReduceOp::Min => all.for_each(|((out, a), b)| *out = T::narrow(T::min(a.widen(), b.widen()))),
    }
}

fn combine_wide<T: Element>(op: ReduceOp, into: &mut [T], first: &[T], others: &[&[T]]) {
    let mut wide: Vec<T::Wide> = Vec::with_capacity(BLOCK.min(into.len()));
    for (index, block) in into.chunks_mut(BLOCK).enumerate() {
        let range = index * BLOCK..index * BLOCK + block.len();
        wide.clear();
        wide.extend(first[range.clone()].iter().map(|x| x.widen()));
        for other in others {
            let pairs = wide.iter_mut().zip(&other[range.clone()]);
            match op {
                ReduceOp::Sum => pairs.for_each(|(a, b)| *a = T::sum(*a, b.widen())),
                ReduceOp::Max => pairs.for_each(|(a, b)| *a = T::max(*a, b.widen())),
                ReduceOp::Min => pairs.for_each(|(a, b)| *a = T::min(*a, b.widen())),
            }
        }
        block.iter_mut().zip(&wide).for_each(|(out, &value)| *out = T::narrow(value));
    }
}

/// Elements in memory of their own, on their way between ranks.
#[derive(Debug)]
pub(crate) struct Buffer(CpuStorage);

impl Buffer {
    /// A copy of the elements of `tensor`: contiguous, on CPU.
    pub(crate) fn copy_of(tensor: &Tensor) -> Result<Self> {
        read(tensor, |storage, range| {
            Ok(Self(match storage {
                CpuStorage::F64(data) => CpuStorage::F64(data[range].to_vec()),
                CpuStorage::F32(data) => CpuStorage::F32(data[range].to_vec()),
                CpuStorage::F16(data) => CpuStorage::F16(data[range].to_vec()),
                CpuStorage::BF16(data) => CpuStorage::BF16(data[range].to_vec()),
                CpuStorage::U32(data) => CpuStorage::U32(data[range].to_vec()),
                CpuStorage::I64(data) => CpuStorage::I64(data[range].to_vec()),
                _ => return Err(candle_core::Error::Msg("this dtype does not travel".to_owned()).into()),
            }))
        })
    }

    /// `length` zeros.
    pub(crate) fn zeros(dtype: DType, length: usize) -> Result<Self> {
        Self::copy_of(&Tensor::zeros(length, dtype, &Device::Cpu)?)
    }

    /// A copy, in memory of the current ledger and kind.
    pub(crate) fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }

    /// Bytes of the elements.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.0 {
            CpuStorage::F64(data) => size_of_val(data.as_slice()) as u64,
            CpuStorage::F32(data) => size_of_val(data.as_slice()) as u64,
            CpuStorage::F16(data) => size_of_val(data.as_slice()) as u64,
            CpuStorage::BF16(data) => size_of_val(data.as_slice()) as u64,
            CpuStorage::U32(data) => size_of_val(data.as_slice()) as u64,
            CpuStorage::I64(data) => size_of_val(data.as_slice()) as u64,
            _ => 0,
        }
    }

    /// `self[i] = op(self[i], tensor[i])` for a contiguous tensor on CPU with as many elements.
    pub(crate) fn combine(&mut self, op: ReduceOp, tensor: &Tensor) -> Result<()> {
        read(tensor, |storage, range| {
            with_both!(&mut self.0, storage, into, from => combine_slices(op, into, &from[range]));
            Ok(())
        })
    }

    /// `self[i] = op(self[i], other[i])`.
    pub(crate) fn combine_buffer(&mut self, op: ReduceOp, other: &Self) -> Result<()> {
        with_both!(&mut self.0, &other.0, into, from => combine_slices(op, into, from));
        Ok(())
    }

    /// The first elements of `self` become the reduction of `tensors`, in their order: contiguous, on CPU, of equal
    /// length.
    pub(crate) fn reduce(&mut self, op: ReduceOp, tensors: &[Tensor]) -> Result<()> {
        let read: Vec<_> = tensors.iter().map(Tensor::storage_and_layout).collect();
        with_elements!(&mut self.0, into => {
            let mut slices = Vec::with_capacity(read.len());
            for (storage, layout) in &read {
                slices.push(&elements_of(storage)?[contiguous(layout)?]);
            }
            let length = slices.first().map_or(0, |slice| slice.len());
            combine_all(op, &mut into[..length], &slices);
        });
        Ok(())
    }

    /// Writes the first elements of `self` over those of `tensor`, in place.
    pub(crate) fn write_to(&self, tensor: &Tensor) -> Result<()> {
        struct Write<'a>(&'a CpuStorage);
        impl InplaceOp1 for Write<'_> {
            fn name(&self) -> &'static str {
                "write a message"
            }
            fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
                let write = || -> Result<()> {
                    let range = contiguous(layout)?;
                    with_both!(storage, self.0, into, from => {
                        let length = range.len();
                        into[range].copy_from_slice(&from[..length]);
                    });
                    Ok(())
                };
                write().map_err(Into::into)
            }
        }
        if tensor.elem_count() == 0 {
            return Ok(());
        }
        Ok(tensor.inplace_op1(&Write(&self.0))?)
    }

    /// The elements as a tensor, without a copy.
    pub(crate) fn into_tensor(self, shape: &[usize]) -> Result<Tensor> {
        let cpu = &Device::Cpu;
        Ok(with_elements!(self.0, data => Tensor::from_vec(data, shape, cpu)?))
    }
}

/// The elements of a CPU storage as a slice of the type the context asks for.
fn elements_of<T: candle_core::WithDType>(storage: &Storage) -> Result<&[T]> {
    match storage {
        Storage::Cpu(storage) => Ok(storage.as_slice::<T>()?),
        _ => Err(candle_core::Error::Msg("a message must be on CPU".to_owned()).into()),
    }
}

/// Where the elements lie. A view without elements may point behind its storage.
fn contiguous(layout: &Layout) -> Result<Range<usize>> {
    match layout.contiguous_offsets() {
        Some((start, end)) if start < end => Ok(start..end),
        Some(_) => Ok(0..0),
        None => Err(candle_core::Error::Msg("a message must be contiguous".to_owned()).into()),
    }
}

fn read<R>(tensor: &Tensor, f: impl FnOnce(&CpuStorage, Range<usize>) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(storage, contiguous(layout)?),
        _ => Err(candle_core::Error::Msg("a message must be on CPU".to_owned()).into()),
    }
}
