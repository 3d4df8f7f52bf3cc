//! How far results may differ.

use candle_core::{DType, Tensor};
use training::Named;

/// f64 gradients, relative to the norm of each.
pub(crate) const GRADIENTS: f64 = 1e-9;
/// f64 weights after five SGD steps, relative to the norm of each.
pub(crate) const WEIGHTS: f64 = 1e-10;

fn norm(tensor: &Tensor) -> f64 {
    tensor.to_dtype(DType::F64).unwrap().sqr().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap().sqrt()
}

/// ‖found − expected‖ / ‖expected‖, absolute where the expected norm is 0.
pub(crate) fn difference(found: &Tensor, expected: &Tensor) -> f64 {
    let wide = |tensor: &Tensor| tensor.to_dtype(DType::F64).unwrap();
    let scale = norm(expected);
    norm(&(wide(found) - wide(expected)).unwrap()) / if scale > 0. { scale } else { 1. }
}

/// Both have the same names and shapes, and no tensor differs by more than `tolerance`; returns the largest difference.
pub(crate) fn assert_close(what: &str, found: &Named, expected: &Named, tolerance: f64) -> f64 {
    assert!(found.keys().eq(expected.keys()), "{what}: the same names");
    expected.iter().fold(0., |worst, (name, expected)| {
        assert_eq!(found[name].dims(), expected.dims(), "{what}: {name}");
        let difference = difference(&found[name], expected);
        assert!(difference <= tolerance, "{what}: {name} differs by {difference:e} of its norm, at most {tolerance:e}");
        f64::max(worst, difference)
    })
}
