//! The plain KV cache: one preallocated block per layer, room for the longest sequence in every row.

use super::KvCache;
use crate::error::{Error, Result};
use crate::positions::Positions;
use candle_core::{DType, Device, Tensor};
use ledger::{Kind, Ledger};

/// Sizes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Layers held here.
    pub layers: usize,
    /// Sequences.
    pub batch: usize,
    /// Key heads held here.
    pub kv_heads: usize,
    /// Tokens per sequence.
    pub capacity: usize,
    /// Width of a head.
    pub head_dim: usize,
}

impl CacheShape {
    /// Elements of keys and values together, if that number exists.
    pub fn elements(&self) -> Option<u64> {
        [self.layers, self.batch, self.kv_heads, self.capacity, self.head_dim]
            .iter()
            .try_fold(2u64, |product, &size| product.checked_mul(size as u64))
    }
}

/// Keys and values of every layer, each `[batch, kv_heads, capacity, head_dim]`.
#[derive(Debug)]
pub struct Contiguous {
    shape: CacheShape,
    layers: Vec<(Tensor, Tensor)>,
}

impl Contiguous {
    /// An empty cache.
    ///
    /// # Errors
    /// The device has no room.
    pub fn new(shape: CacheShape, dtype: DType, device: &Device) -> Result<Self> {
        let block = || zeros([shape.batch, shape.kv_heads, shape.capacity, shape.head_dim], dtype, device);
        let layers = (0..shape.layers).map(|_| Ok((block()?, block()?))).collect::<Result<_>>()?;
        Ledger::of_this_thread().check()?;
        Ok(Self { shape, layers })
    }
}

/// A block of zeros. What the ledger hears of as KV cache is its elements and nothing else: on the CPU the handle around them, some
/// hundred bytes, is the host's.
fn zeros(shape: [usize; 4], dtype: DType, device: &Device) -> Result<Tensor> {
    let _kind = ledger::scope(Kind::KvCache);
    let elements = shape.iter().product();
    Ok(match (device, dtype) {
        (Device::Cpu, DType::F32) => {
            let values = vec![0f32; elements];
            let _handle = ledger::scope(Kind::Host);
            Tensor::from_vec(values, &shape, device)?
        }
        (Device::Cpu, DType::F64) => {
            let values = vec![0f64; elements];
            let _handle = ledger::scope(Kind::Host);
            Tensor::from_vec(values, &shape, device)?
        }
        _ => Tensor::zeros(&shape, dtype, device)?,
    })
}

impl KvCache for Contiguous {
    fn capacity(&self) -> usize {
        self.shape.capacity
    }

    fn store(&mut self, layer: usize, k: &Tensor, v: &Tensor, positions: &Positions) -> Result<(Tensor, Tensor)> {
        let longest = positions.longest();
        if longest > self.shape.capacity {
            return Err(Error::ContextLength { needed: longest, available: self.shape.capacity });
        }
        let Some((keys, values)) = self.layers.get(layer).filter(|_| positions.rows() == self.shape.batch) else {
            return Err(Error::Setting {
                name: "KV cache",
                found: format!("layer {layer}, {} sequences", positions.rows()),
                expected: format!("a layer below {} and {} sequences", self.shape.layers, self.shape.batch),
            });
        };
        for (block, new) in [(keys, k), (values, v)] {
            for (row, (start, length)) in positions.spans().enumerate().filter(|(_, (_, length))| *length > 0) {
                let new = new.narrow(0, row, 1)?.narrow(1, 0, length)?.transpose(1, 2)?.contiguous()?;
                block.narrow(0, row, 1)?.slice_set(&new, 2, start)?;
            }
        }
        Ok((keys.narrow(2, 0, longest)?, values.narrow(2, 0, longest)?))
    }

    fn bytes(&self) -> u64 {
        self.layers.iter().map(|(k, v)| ((k.elem_count() + v.elem_count()) * k.dtype().size_in_bytes()) as u64).sum()
    }
}
