//! Keys and values of a prompt whose tokens are spread over ranks: each rank keeps those of its own tokens.

use candle_core::Tensor;
use decoder::cache::KvCache;
use decoder::{Error, Positions, Result};
use ledger::Kind;

/// Keys and values of the own tokens, layer by layer: `[rows, kv_heads, seq, head_dim]` each.
#[derive(Debug)]
pub struct PromptCache {
    capacity: usize,
    layers: Vec<Option<(Tensor, Tensor)>>,
}

impl PromptCache {
    /// An empty cache for `layers` layers and sequences of up to `capacity` tokens, over all ranks.
    pub fn new(layers: usize, capacity: usize) -> Self {
        Self { capacity, layers: (0..layers).map(|_| None).collect() }
    }
}

impl KvCache for PromptCache {
    fn capacity(&self) -> usize {
        self.capacity
    }

    /// Once per layer: a prompt is computed as a whole.
    fn store(&mut self, layer: usize, k: &Tensor, v: &Tensor, positions: &Positions) -> Result<(Tensor, Tensor)> {
        let (needed, available) = (positions.longest(), self.capacity);
        if needed > available {
            return Err(Error::ContextLength { needed, available });
        }
        let layers = self.layers.len();
        let Some(place @ None) = self.layers.get_mut(layer) else {
            return Err(Error::Setting {
                name: "KV cache",
                found: format!("layer {layer}"),
                expected: format!("each of {layers} layers once: the prompt is computed as a whole"),
            });
        };
        let _kind = ledger::scope(Kind::KvCache);
        let kept = |tensor: &Tensor| tensor.transpose(1, 2)?.force_contiguous();
        let (k, v) = (kept(k)?, kept(v)?);
        *place = Some((k.clone(), v.clone()));
        Ok((k, v))
    }

    fn bytes(&self) -> u64 {
        let size = |tensor: &Tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64;
        self.layers.iter().flatten().map(|(k, v)| size(k) + size(v)).sum()
    }
}
