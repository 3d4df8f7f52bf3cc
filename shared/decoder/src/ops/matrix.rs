//! A safe front of the `gemm` crate: products of strided views of slices.
//!
//! The attention loops multiply many small strided blocks that are never tensors of their own; through candle each of
//! them would be copied first. `gemm` takes raw pointers, so the bounds are checked here, once per product.
#![allow(unsafe_code)]

use super::real::Real;
use ledger::{Kind, Ledger};
use std::cell::Cell;

/// Rows and columns of a view, and the distances in elements between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape2 {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl Shape2 {
    /// Rows of `columns` adjacent elements, `row_stride` apart.
    pub(super) fn rows(rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { rows, columns, row_stride, column_stride: 1 }
    }

    pub(super) fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row_stride: self.column_stride, column_stride: self.row_stride }
    }

    /// Elements from the first to the last one touched.
    fn extent(self) -> usize {
        if self.rows == 0 || self.columns == 0 {
            return 0;
        }
        (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride + 1
    }
}

/// `out ← keep · out + scale · a · b`, on the calling thread. With `keep` = 0, `out` is not read.
pub(super) fn multiply<T: Real>(
    (out, out_shape): (&mut [T], Shape2),
    a: (&[T], Shape2),
    b: (&[T], Shape2),
    keep: T,
    scale: T,
) {
    assert!(out_shape.extent() <= out.len(), "the matrix {out_shape:?} does not fit its {} elements", out.len());
    // SAFETY: `out` has room for every element of `out_shape`, is initialised, and borrowed mutably.
    unsafe { raw_multiply(out.as_mut_ptr(), out_shape, a, b, keep, scale, gemm::Parallelism::None) }
}

/// `a · b`, row-major, on all threads of the current rayon pool. The result is not zeroed first: it is written once.
pub(super) fn product<T: Real>(a: (&[T], Shape2), b: (&[T], Shape2)) -> Vec<T> {
    let (rows, columns) = (a.1.rows, b.1.columns);
    if rows == 0 || columns == 0 || a.1.columns == 0 {
        return vec![T::ZERO; rows * columns];
    }
    let mut out = Vec::with_capacity(rows * columns);
    let parallelism = match rayon::current_num_threads() {
        1 => gemm::Parallelism::None,
        threads => gemm::Parallelism::Rayon(threads),
    };
    // What gemm allocates is scratch: it packs blocks of both operands.
    let _kind = ledger::scope(Kind::Workspace);
    // SAFETY: the capacity is that of the shape; with `keep` = 0 gemm writes every element of it and reads none, so all of
    // them are initialised when the length is set.
    unsafe {
        let shape = Shape2::rows(rows, columns, columns);
        raw_multiply(out.as_mut_ptr(), shape, a, b, T::ZERO, T::ONE, parallelism);
        out.set_len(rows * columns);
    }
    out
}

/// The call itself.
///
/// # Safety
/// `out` points to memory for every element of `out_shape`, which nothing else uses; its elements are initialised unless
/// `keep` is 0.
unsafe fn raw_multiply<T: Real>(
    out: *mut T,
    out_shape: Shape2,
    (a, a_shape): (&[T], Shape2),
    (b, b_shape): (&[T], Shape2),
    keep: T,
    scale: T,
    parallelism: gemm::Parallelism,
) {
    let fits = a_shape.extent() <= a.len()
        && b_shape.extent() <= b.len()
        && a_shape.columns == b_shape.rows
        && out_shape.rows == a_shape.rows
        && out_shape.columns == b_shape.columns;
    assert!(fits, "matrix views do not fit: {out_shape:?} = {a_shape:?} · {b_shape:?}");
    pay_for_slab();
    // SAFETY: every element that gemm touches lies within `extent` of its slice, which was checked above, or within `out`,
    // which is the caller's promise.
    unsafe {
        gemm::gemm(
            out_shape.rows,
            out_shape.columns,
            a_shape.columns,
            out,
            out_shape.column_stride as isize,
            out_shape.row_stride as isize,
            keep != T::ZERO,
            a.as_ptr(),
            a_shape.column_stride as isize,
            a_shape.row_stride as isize,
            b.as_ptr(),
            b_shape.column_stride as isize,
            b_shape.row_stride as isize,
            keep,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// gemm keeps a slab of the size of the second-level cache per thread, for as long as the thread lives. It belongs to the
/// program, not to the rank or the kind of memory that happened to multiply first on this thread.
fn pay_for_slab() {
    thread_local! {
        static PAID: Cell<bool> = const { Cell::new(false) };
    }
    if !PAID.replace(true) {
        let main = Ledger::main();
        let (_main, _host) = (main.enter(), ledger::scope(Kind::Host));
        gemm_common::gemm::L2_SLAB.with(|_| {});
    }
}
