//! A computed value with a backward of our own.
//!
//! candle's graph knows custom operations as "storages in, storage out". Ours are easier to read as two functions over
//! tensors, so the forward is computed first, by any means, and its result is then *attached* to the graph.

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, InplaceOp1, Layout, Result, Shape, Storage, Tensor, bail,
};
use std::sync::Mutex;

/// Gives `value`, computed from `inputs` outside of the graph, the backward `backward(inputs, value, d value)`, which
/// returns the gradient of each input (`None`: no gradient flows there).
///
/// `value` must be fresh: contiguous, and its memory shared with no other tensor (an identity therefore starts with
/// [`Tensor::copy`]). Its memory is moved into the graph's node, not copied.
///
/// # Errors
/// More than three inputs, or `value` is not contiguous.
pub fn with_backward<const N: usize, F>(
    name: &'static str,
    inputs: [&Tensor; N],
    value: Tensor,
    backward: F,
) -> Result<Tensor>
where
    F: Fn([&Tensor; N], &Tensor, &Tensor) -> Result<[Option<Tensor>; N]> + Send + Sync + 'static,
{
    if !value.is_contiguous() {
        bail!("{name}: a value must be contiguous to be attached to the graph")
    }
    let backward = move |inputs: &[&Tensor], value: &Tensor, gradient: &Tensor| {
        let Ok(inputs) = <[&Tensor; N]>::try_from(inputs) else {
            bail!("{name}: {} inputs, {N} attached", inputs.len())
        };
        Ok(backward(inputs, value, gradient)?.to_vec())
    };
    let node = Attached { name, value: Mutex::new(Some(value)), backward: Box::new(backward) };
    match inputs.as_slice() {
        [x] => x.apply_op1(node),
        [x, y] => x.apply_op2(y, node),
        [x, y, z] => x.apply_op3(y, z, node),
        _ => bail!("{name}: an operation has one to three differentiable inputs, found {N}"),
    }
}

type Backward = dyn Fn(&[&Tensor], &Tensor, &Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync;

struct Attached {
    name: &'static str,
    value: Mutex<Option<Tensor>>,
    backward: Box<Backward>,
}

impl Attached {
    fn value(&self) -> Result<Tensor> {
        match self.value.lock().map(|mut value| value.take()) {
            Ok(Some(value)) => Ok(value),
            _ => bail!("{}: the node was evaluated twice", self.name),
        }
    }

    fn cpu(&self) -> Result<(CpuStorage, Shape)> {
        let value = self.value()?;
        let shape = value.shape().clone();
        if value.elem_count() == 0 {
            // candle takes a dimension of size 0 for one with repeated elements; there is nothing to move anyway.
            let (storage, layout) = value.storage_and_layout();
            return match &*storage {
                Storage::Cpu(storage) => Ok((storage.try_clone(layout)?, shape.clone())),
                _ => bail!("{}: inputs are on the CPU, the value is not", self.name),
            };
        }
        let steal = Steal(Mutex::new(None));
        value.inplace_op1(&steal)?;
        match steal.0.into_inner() {
            Ok(Some(storage)) => Ok((storage, shape)),
            _ => bail!("{}: the value has no memory", self.name),
        }
    }

    fn cuda(&self) -> Result<(CudaStorage, Shape)> {
        let value = self.value()?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => Ok((storage.try_clone(layout)?, value.shape().clone())),
            _ => bail!("{}: inputs are on a GPU, the value is not", self.name),
        }
    }
}

/// Takes the memory out of a tensor that nobody else will look at.
struct Steal(Mutex<Option<CpuStorage>>);

impl InplaceOp1 for Steal {
    fn name(&self) -> &'static str {
        "steal"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let elements = layout.shape().elem_count();
        let whole = layout.start_offset() == 0 && storage_len(storage) == elements;
        let taken =
            if whole { std::mem::replace(storage, CpuStorage::U8(Vec::new())) } else { storage.try_clone(layout)? };
        if let Ok(mut place) = self.0.lock() {
            *place = Some(taken);
        }
        Ok(())
    }
}

/// Elements in a storage; 0 for types that no value of ours has, which are then copied.
fn storage_len(storage: &CpuStorage) -> usize {
    match storage {
        CpuStorage::F64(data) => data.len(),
        CpuStorage::F32(data) => data.len(),
        CpuStorage::F16(data) => data.len(),
        CpuStorage::BF16(data) => data.len(),
        _ => 0,
    }
}

impl CustomOp1 for Attached {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.cpu()
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.cuda()
    }

    fn bwd(&self, x: &Tensor, value: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        Ok((self.backward)(&[x], value, gradient)?.pop().flatten())
    }
}

impl CustomOp2 for Attached {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.cpu()
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.cuda()
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        value: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let mut gradients = (self.backward)(&[x, y], value, gradient)?.into_iter();
        let mut next = || gradients.next().flatten();
        Ok((next(), next()))
    }
}

type ThreeGradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

impl CustomOp3 for Attached {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.cpu()
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.cuda()
    }

    fn bwd(&self, x: &Tensor, y: &Tensor, z: &Tensor, value: &Tensor, gradient: &Tensor) -> Result<ThreeGradients> {
        let mut gradients = (self.backward)(&[x, y, z], value, gradient)?.into_iter();
        let mut next = || gradients.next().flatten();
        Ok((next(), next(), next()))
    }
}
