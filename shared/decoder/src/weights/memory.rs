//! Weights that are tensors already: for tests, and for models in training.

use super::cut::Cut;
use super::mismatch::{self, Stored};
use super::{Part, WeightSpec, Weights, element};
use crate::error::Result;
use candle_core::{DType, Device, Tensor};
use ledger::Kind;
use std::collections::BTreeMap;

/// Named tensors in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    tensors: BTreeMap<String, Tensor>,
}

impl Memory {
    /// From names and tensors; of two with one name the later counts.
    pub fn new(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Self {
        Self { tensors: tensors.into_iter().collect() }
    }

    /// Names of all weights, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    fn stored(&self, name: &str) -> Option<Stored<'_>> {
        let tensor = self.tensors.get(name)?;
        let unreadable = (!element::supported(tensor.dtype())).then_some(tensor.dtype().as_str());
        Some(Stored { shape: tensor.dims(), unreadable })
    }
}

impl Weights for Memory {
    fn origin(&self) -> String {
        "weights in memory".into()
    }

    fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    fn check(&self, specs: &[WeightSpec]) -> Result<()> {
        mismatch::check(&self.origin(), specs, |name| self.stored(name), || self.names())
    }

    /// A copy of its own, never a view: what is read is not changed by what happens to the tensor it came from.
    fn read(&self, spec: &WeightSpec, part: &Part, dtype: DType, device: &Device) -> Result<Tensor> {
        self.check(std::slice::from_ref(spec))?;
        Cut::new(&self.origin(), spec, part)?;
        if !element::supported(dtype) {
            return Err(element::unsupported(dtype));
        }
        let whole = self.tensors[&*spec.name].detach();
        let _scope = ledger::scope(Kind::Weights);
        let part = match part {
            Part::Whole => whole.force_contiguous()?,
            Part::Ranges { dim, ranges } => {
                let narrowed = ranges.iter().map(|range| whole.narrow(*dim, range.start, range.len()));
                match narrowed.collect::<candle_core::Result<Vec<_>>>()?.as_slice() {
                    [] => whole.narrow(*dim, 0, 0)?.force_contiguous()?,
                    [range] => range.force_contiguous()?,
                    ranges => Tensor::cat(ranges, *dim)?,
                }
            }
        };
        Ok(part.to_dtype(dtype)?.to_device(device)?)
    }
}
