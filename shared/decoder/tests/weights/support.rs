//! Inputs and comparisons for the other modules.

use candle_core::{DType, Device, Tensor};
use decoder::weights::{Part, Role, WeightSpec};
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const DTYPES: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

/// A generator with a fresh seed, to be named in messages.
pub(crate) struct Draw {
    pub(crate) seed: u64,
    state: u64,
}

impl Draw {
    pub(crate) fn fresh() -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        Self { seed, state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Uniform in ±4.
    pub(crate) fn tensor(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let values: Vec<f64> =
            (0..shape.iter().product()).map(|_| (self.next() >> 11) as f64 / (1u64 << 50) as f64 - 4.0).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    }

    /// Up to three ranges within `0..size`, in any order, overlapping or empty now and then.
    pub(crate) fn ranges(&mut self, size: usize) -> Vec<Range<usize>> {
        (0..1 + self.below(3))
            .map(|_| {
                let (a, b) = (self.below(size + 1), self.below(size + 1));
                a.min(b)..a.max(b)
            })
            .collect()
    }
}

pub(crate) fn spec(name: &str, shape: &[usize], role: Role) -> WeightSpec {
    WeightSpec { name: name.into(), shape: shape.to_vec(), role, layer: None }
}

pub(crate) fn ranges(dim: usize, ranges: &[Range<usize>]) -> Part {
    Part::Ranges { dim, ranges: ranges.to_vec() }
}

/// The part of `whole` by candle's own narrow and cat.
pub(crate) fn narrowed(whole: &Tensor, dim: usize, ranges: &[Range<usize>]) -> Tensor {
    let parts: Vec<Tensor> = ranges.iter().map(|range| whole.narrow(dim, range.start, range.len()).unwrap()).collect();
    Tensor::cat(&parts, dim).unwrap()
}

/// Bitwise equality of shape, type and values.
#[track_caller]
pub(crate) fn assert_same(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.dtype(), expected.dtype(), "{what}");
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let bits = |tensor: &Tensor| -> Vec<u64> {
        let values = tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        values.into_iter().map(f64::to_bits).collect()
    };
    assert!(bits(found) == bits(expected), "{what}: values differ");
}

/// The message of the error in `result`, which must contain all `words`.
#[track_caller]
pub(crate) fn assert_says<T>(result: decoder::Result<T>, words: &[&str]) {
    let message = match result {
        Ok(_) => panic!("an error that says {words:?} was expected"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
    assert!(!message.contains('\n'), "{message:?} is one line");
}
