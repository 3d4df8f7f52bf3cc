//! Tensors whose memory goes before they do.
//!
//! candle's graph keeps the operands of every operation until its backward. Where no backward reads an operand, its memory can be given
//! back at once; where one will, it can be filled again in time. On the CPU only: elsewhere a tensor keeps its memory.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, bail};
use std::sync::{Mutex, PoisonError};

/// Frees the memory of `tensor`, which nobody will read before it is filled again, unless `kept` shares it.
pub(crate) fn release(tensor: &Tensor, kept: &Tensor) -> Result<()> {
    // An identity may hand on its operand.
    let shared = std::ptr::eq(&raw const *tensor.storage_and_layout().0, &raw const *kept.storage_and_layout().0);
    if shared || !tensor.device().is_cpu() || tensor.elem_count() == 0 {
        return Ok(());
    }
    tensor.inplace_op1(&Exchange(Mutex::new(None)))
}

/// Gives `tensor` the elements of `values`, of the same shape and type.
pub(crate) fn fill(tensor: &Tensor, values: Tensor) -> Result<()> {
    if !tensor.device().is_cpu() || tensor.elem_count() == 0 {
        return Ok(());
    }
    tensor.inplace_op1(&Exchange(Mutex::new(Some(values))))
}

/// Puts a tensor's memory in the place of another's, or none.
struct Exchange(Mutex<Option<Tensor>>);

impl InplaceOp1 for Exchange {
    fn name(&self) -> &'static str {
        "exchange"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        *storage = match given {
            None => CpuStorage::U8(Vec::new()),
            Some(values) if values.dims() != layout.dims() => {
                bail!("a tensor {:?} cannot be filled with {:?}", layout.dims(), values.dims())
            }
            Some(values) => match &*values.storage_and_layout().0 {
                Storage::Cpu(given) => given.try_clone(values.layout())?,
                _ => bail!("values on the CPU are needed here"),
            },
        };
        Ok(())
    }
}
