//! How far two results may differ, by the type that they were computed in: the one table of this binary.

use candle_core::{DType, Device, Tensor};

/// The types that weights may have.
pub(crate) const DTYPES: [DType; 4] = [DType::F64, DType::F32, DType::BF16, DType::F16];

/// Largest difference of an element, relative to the largest element (or to 1).
///
/// `computed_in` is the type of the activations: weights in bf16 and f16 are computed with in f32 on CPU.
pub(crate) fn of(computed_in: DType) -> f64 {
    match computed_in {
        DType::F64 => 1e-12,
        DType::F32 => 2e-5,
        DType::F16 => 4e-2,
        DType::BF16 => 8e-2,
        other => panic!("no tolerance for {other:?}"),
    }
}

/// Largest difference of an element, relative to the largest of `expected` (or to 1); NaN counts as infinite.
pub(crate) fn difference(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.dims(), expected.dims(), "shapes");
    let (found, expected) = (numbers(found), numbers(expected));
    let scale = expected.iter().fold(1f64, |scale, value| scale.max(value.abs()));
    let worst = |worst: f64, (a, b): (&f64, &f64)| {
        let difference = (a - b).abs();
        if difference.is_nan() { f64::INFINITY } else { worst.max(difference) }
    };
    found.iter().zip(&expected).fold(0., worst) / scale
}

/// Fails if `found` is further from `expected` than the table allows for `computed_in`.
pub(crate) fn assert_close(what: &str, computed_in: DType, found: &Tensor, expected: &Tensor) {
    let (worst, tolerance) = (difference(found, expected), of(computed_in));
    assert!(worst <= tolerance, "{what}: differs by {worst:.1e}, {computed_in:?} allows {tolerance:.1e}");
}

/// All elements, in f64.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// `values` in f64.
pub(crate) fn tensor(values: Vec<f64>, shape: &[usize]) -> Tensor {
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}
