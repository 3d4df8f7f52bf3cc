//! Collective operations in candle's graph: any operation forward, any operation backward.
//!
//! The pairs of Megatron-LM (Shoeybi et al., 2019; Korthikanti et al., 2022) are named as verbs. What one rank receives
//! in the backward is what its graph reaches: all ranks of the group must walk the same graph.

use crate::{Communicator, ReduceOp, Result};
use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, Shape, Storage, Tensor};
use std::sync::{Arc, Mutex};

type Map = dyn Fn(&dyn Communicator, &Tensor) -> Result<Tensor> + Send + Sync;

/// `forward(x)` with the gradient `backward(dy)`. Both see the communicator.
///
/// `x` gets its gradient in its own shape, so `backward` must return that.
///
/// # Errors
/// What `forward` fails with.
pub fn with_backward<F, B>(communicator: &Arc<dyn Communicator>, x: &Tensor, forward: F, backward: B) -> Result<Tensor>
where
    F: FnOnce(&dyn Communicator, &Tensor) -> Result<Tensor>,
    B: Fn(&dyn Communicator, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
{
    let value = forward(communicator.as_ref(), &x.detach())?.contiguous()?;
    let (communicator, backward) = (communicator.clone(), Box::new(backward));
    Ok(x.apply_op1(Node { communicator, value: Mutex::new(Some(value)), backward })?)
}

/// Megatron's f, before a column-parallel product: identity forward, all-reduce backward. `[…]` → `[…]`.
///
/// # Errors
/// As [`with_backward`].
pub fn copy_to_group(communicator: &Arc<dyn Communicator>, x: &Tensor) -> Result<Tensor> {
    with_backward(communicator, x, |_, x| Ok(x.clone()), |group, dy| group.all_reduce(dy, ReduceOp::Sum))
}

/// Megatron's g, after a row-parallel product: all-reduce forward, identity backward. `[…]` → `[…]`.
///
/// # Errors
/// As [`with_backward`].
pub fn reduce_from_group(communicator: &Arc<dyn Communicator>, x: &Tensor) -> Result<Tensor> {
    with_backward(communicator, x, |group, x| group.all_reduce(x, ReduceOp::Sum), |_, dy| Ok(dy.clone()))
}

/// All-gather forward, reduce-scatter backward: `[…, n, …]` → `[…, n · size, …]` along `dim`, cut as
/// [`chunk`](crate::chunk) does.
///
/// # Errors
/// As [`with_backward`].
pub fn gather_from_group(communicator: &Arc<dyn Communicator>, x: &Tensor, dim: usize) -> Result<Tensor> {
    let backward = move |group: &dyn Communicator, dy: &Tensor| group.reduce_scatter(dy, ReduceOp::Sum, dim);
    with_backward(communicator, x, |group, x| group.all_gather(x, dim), backward)
}

/// Reduce-scatter forward, all-gather backward: the conjugate of [`gather_from_group`].
///
/// # Errors
/// As [`with_backward`].
pub fn reduce_scatter_to_group(communicator: &Arc<dyn Communicator>, x: &Tensor, dim: usize) -> Result<Tensor> {
    let backward = move |group: &dyn Communicator, dy: &Tensor| group.all_gather(dy, dim);
    with_backward(communicator, x, |group, x| group.reduce_scatter(x, ReduceOp::Sum, dim), backward)
}

/// A computed value as a node of the graph.
struct Node {
    communicator: Arc<dyn Communicator>,
    value: Mutex<Option<Tensor>>,
    backward: Box<Map>,
}

impl Node {
    fn value(&self) -> candle_core::Result<Tensor> {
        let value = self.value.lock().map(|mut value| value.take());
        value
            .ok()
            .flatten()
            .ok_or_else(|| candle_core::Error::Msg("a collective's node was evaluated twice".to_owned()))
    }
}

impl CustomOp1 for Node {
    fn name(&self) -> &'static str {
        "collective"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let value = self.value()?;
        // A storage of its own, as large as the value: an identity's value is a view of its operand.
        let own = value.force_contiguous()?;
        let (storage, _) = own.storage_and_layout();
        match &*storage {
            Storage::Cpu(storage) => Ok((storage.clone(), value.shape().clone())),
            _ => Err(candle_core::Error::Msg("a collective's result is on another device than its operand".to_owned())),
        }
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> candle_core::Result<(CudaStorage, Shape)> {
        let value = self.value()?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => {
                Ok((candle_core::backend::BackendStorage::try_clone(storage, layout)?, value.shape().clone()))
            }
            _ => Err(candle_core::Error::Msg("a collective's result is on another device than its operand".to_owned())),
        }
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> candle_core::Result<Option<Tensor>> {
        Ok(Some((self.backward)(self.communicator.as_ref(), gradient)?))
    }
}
