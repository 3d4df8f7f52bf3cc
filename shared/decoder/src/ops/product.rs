//! Products of two whole matrices, transposed or not.
//!
//! The same library that candle multiplies with on CPU, called directly for one reason: the ledger can then tell the result
//! from the scratch memory in which the library packs its operands ([`Workspace`](ledger::Kind::Workspace)).

use super::matrix::{self, Shape2};
use super::real::{Real, by_type, is_native};
use candle_core::{Device, Layout, Result, Storage, Tensor, bail};

/// `a [m, k] · b [k, n] → [m, n]`, of one type; any strides.
pub(super) fn multiplied(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if is_native(a) && a.dtype() == b.dtype() { by_type!(a, multiplied_natively(a, b)) } else { a.matmul(b) }
}

fn multiplied_natively<T: Real>(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ((m, k), (inner, n)) = (a.dims2()?, b.dims2()?);
    if k != inner {
        bail!("a matrix of {m} × {k} cannot be multiplied with one of {inner} × {n}")
    }
    let ((a_storage, a_layout), (b_storage, b_layout)) = (a.storage_and_layout(), b.storage_and_layout());
    let product = matrix::product(view::<T>(&a_storage, a_layout)?, view::<T>(&b_storage, b_layout)?);
    Tensor::from_vec(product, (m, n), &Device::Cpu)
}

fn view<'a, T: Real>(storage: &'a Storage, layout: &Layout) -> Result<(&'a [T], Shape2)> {
    let Storage::Cpu(storage) = storage else { bail!("a tensor on the CPU is needed here") };
    let (rows, columns) = layout.shape().dims2()?;
    match layout.stride() {
        &[row_stride, column_stride] => Ok((
            &storage.as_slice::<T>()?[layout.start_offset()..],
            Shape2 { rows, columns, row_stride, column_stride },
        )),
        other => bail!("a matrix with strides {other:?}"),
    }
}
