//! A safe front of the `gemm` crate: products of strided views of slices.
//!
//! The attention loops multiply many small strided blocks that are never tensors of their own; through candle each of
//! them would be copied first. `gemm` takes raw pointers, so the bounds are checked here, once per product.
#![allow(unsafe_code)]

use super::real::Real;

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
#[allow(clippy::panic)]
pub(super) fn multiply<T: Real>(
    (out, out_shape): (&mut [T], Shape2),
    (a, a_shape): (&[T], Shape2),
    (b, b_shape): (&[T], Shape2),
    keep: T,
    scale: T,
) {
    let fits = out_shape.extent() <= out.len()
        && a_shape.extent() <= a.len()
        && b_shape.extent() <= b.len()
        && a_shape.columns == b_shape.rows
        && out_shape.rows == a_shape.rows
        && out_shape.columns == b_shape.columns;
    assert!(fits, "matrix views do not fit: {out_shape:?} = {a_shape:?} · {b_shape:?}");
    // SAFETY: every element that gemm touches lies within `extent` of its slice, which was checked above; `out` is
    // borrowed mutably, so it overlaps neither `a` nor `b`.
    unsafe {
        gemm::gemm(
            out_shape.rows,
            out_shape.columns,
            a_shape.columns,
            out.as_mut_ptr(),
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
            gemm::Parallelism::None,
        );
    }
}
