//! The elements of a tensor, to read as a slice or to change in place.
//!
//! candle's in-place operations have one destination. AdamW changes three tensors at once, so the accesses nest: each
//! [`update`] lends its slice to a closure, inside which the next one is opened.

use candle_core::{CpuStorage, InplaceOp1, InplaceOp2, Layout, Result, Storage, Tensor, WithDType, bail};
use half::{bf16, f16};
use std::cell::Cell;
use std::marker::PhantomData;

/// An element type that can be changed in place.
pub(crate) trait Element: WithDType {
    /// All elements of `storage`, `None` if it is of another type.
    fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

macro_rules! element {
    ($element:ty, $variant:ident) => {
        impl Element for $element {
            fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                if let CpuStorage::$variant(values) = storage { Some(values) } else { None }
            }
        }
    };
}
element!(f32, F32);
element!(f64, F64);
element!(bf16, BF16);
element!(f16, F16);

/// The same number in f32. `bf16::to_f32` has a branch for NaN, which keeps a loop from being vectorised.
pub(crate) fn widen(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// Reads the elements of `tensor`, in order. A view that is not contiguous is copied first.
pub(crate) fn read<T: WithDType, R>(tensor: &Tensor, work: impl FnOnce(&[T]) -> R) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { bail!("the tensor is not on the CPU") };
    Ok(work(part(storage.as_slice::<T>()?, layout)?))
}

/// Lends the elements of `tensor` to `work`, which may change them. Every clone and view of the tensor sees the change.
pub(crate) fn update<T: Element>(tensor: &Tensor, work: impl FnOnce(&mut [T]) -> Result<()>) -> Result<()> {
    tensor.inplace_op1(&Update { work: Cell::new(Some(work)), elements: PhantomData::<T> })
}

/// As [`update`], with the elements of another tensor to read.
pub(crate) fn update_from<T: Element, S: WithDType>(
    tensor: &Tensor,
    source: &Tensor,
    work: impl FnOnce(&mut [T], &[S]) -> Result<()>,
) -> Result<()> {
    tensor.inplace_op2(&source.contiguous()?, &Update { work: Cell::new(Some(work)), elements: PhantomData::<(T, S)> })
}

/// Replaces the elements of `tensor` by those of `source`: every clone of `tensor` sees it.
pub(crate) fn overwrite(tensor: &Tensor, source: &Tensor) -> Result<()> {
    if tensor.elem_count() == 0 {
        return Ok(());
    }
    // One dimension, because a scalar has none to write along.
    tensor.detach().flatten_all()?.slice_set(&source.detach().flatten_all()?.contiguous()?, 0, 0)
}

/// The operation that candle runs; it runs it once, so `work` is taken out.
struct Update<F, E> {
    work: Cell<Option<F>>,
    elements: PhantomData<E>,
}

impl<T: Element, F: FnOnce(&mut [T]) -> Result<()>> InplaceOp1 for Update<F, T> {
    fn name(&self) -> &'static str {
        "update"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let Some(work) = self.work.take() else { bail!("update: ran twice") };
        work(part_mut(storage, layout)?)
    }
}

impl<T: Element, S: WithDType, F: FnOnce(&mut [T], &[S]) -> Result<()>> InplaceOp2 for Update<F, (T, S)> {
    fn name(&self) -> &'static str {
        "update"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout, source: &CpuStorage, at: &Layout) -> Result<()> {
        let Some(work) = self.work.take() else { bail!("update: ran twice") };
        work(part_mut(storage, layout)?, part(source.as_slice::<S>()?, at)?)
    }
}

fn part<'a, T>(elements: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets().and_then(|(start, end)| elements.get(start..end)) {
        Some(part) => Ok(part),
        None => bail!("update: the source is not contiguous"),
    }
}

fn part_mut<'a, T: Element>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [T]> {
    let Some(elements) = T::slice_mut(storage) else { bail!("update: the tensor is not of type {:?}", T::DTYPE) };
    match layout.contiguous_offsets().and_then(|(start, end)| elements.get_mut(start..end)) {
        Some(part) => Ok(part),
        None => bail!("update: the tensor is not contiguous"),
    }
}
