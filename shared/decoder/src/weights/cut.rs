//! From a [`Part`] to runs of consecutive elements of the whole weight, row-major.

use super::{Part, WeightSpec};
use crate::error::{Error, Result};
use std::ops::Range;

/// A part that was checked against the shape it is cut from.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// How often the pattern of `runs` repeats: product of the sizes before the cut dimension.
    repeats: usize,
    /// Elements from one repeat to the next.
    stride: usize,
    /// Elements within one repeat, in the order asked for.
    runs: Vec<Range<usize>>,
}

impl Cut {
    /// Checks `part` against the shape of `spec`.
    pub(super) fn new(origin: &str, spec: &WeightSpec, part: &Part) -> Result<Self> {
        let shape = &spec.shape;
        let fault = |found: String, expected: String| Error::Weight {
            origin: origin.into(),
            name: spec.name.to_string(),
            found,
            expected,
        };
        let product = |sizes: &[usize]| {
            sizes
                .iter()
                .try_fold(1usize, |product, &size| product.checked_mul(size))
                .ok_or_else(|| fault(format!("shape {shape:?}"), "a number of elements that fits in 64 bits".into()))
        };
        let total = product(shape)?;
        let Part::Ranges { dim, ranges } = part else {
            return Ok(Self::whole(total));
        };
        let Some(&size) = shape.get(*dim) else {
            return Err(fault(format!("a part along dimension {dim}"), format!("a dimension of shape {shape:?}")));
        };
        if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > size) {
            return Err(fault(format!("a part {range:?} along dimension {dim}"), format!("ranges within 0..{size}")));
        }
        let (before, after) = (product(&shape[..*dim])?, product(&shape[*dim + 1..])?);
        let runs = ranges.iter().map(|range| range.start * after..range.end * after).collect();
        Ok(Self { repeats: before, stride: size * after, runs })
    }

    /// All of a weight of `elements` elements.
    pub(super) fn whole(elements: usize) -> Self {
        Self { repeats: 1, stride: elements, runs: std::iter::once(0..elements).collect() }
    }

    /// The runs over the whole weight, in the order of the part's elements.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.repeats).flat_map(|repeat| {
            let offset = repeat * self.stride;
            self.runs.iter().map(move |run| run.start + offset..run.end + offset)
        })
    }
}
