//! Keys and values of past tokens.
//!
//! A key belongs to a *position* of a sequence, not to the call that computed it: prefill in chunks, batches of unequal
//! prompts and going back to an earlier position are then nothing special.

mod contiguous;

pub use contiguous::{CacheShape, Contiguous};

use crate::error::Result;
use crate::positions::Positions;
use candle_core::Tensor;

/// Stores keys and values by sequence, layer and position.
pub trait KvCache: Send {
    /// Tokens that one sequence has room for.
    fn capacity(&self) -> usize;

    /// Stores `k` and `v` `[batch, seq, kv_heads, head_dim]` of local layer `layer` at `positions`, and returns all keys and
    /// values from position 0 to the longest sequence's end, `[batch, kv_heads, longest, head_dim]`.
    ///
    /// # Errors
    /// [`Error::ContextLength`](crate::Error::ContextLength) when a sequence does not fit: nothing is stored then.
    fn store(&mut self, layer: usize, k: &Tensor, v: &Tensor, positions: &Positions) -> Result<(Tensor, Tensor)>;

    /// Bytes that the keys and values of all sequences occupy.
    fn bytes(&self) -> u64;
}

/// One layer's view of a cache.
pub struct LayerCache<'a> {
    cache: &'a mut dyn KvCache,
    layer: usize,
}

impl<'a> LayerCache<'a> {
    /// `layer` counts the layers held here.
    pub fn new(cache: &'a mut dyn KvCache, layer: usize) -> Self {
        Self { cache, layer }
    }

    /// See [`KvCache::store`].
    ///
    /// # Errors
    /// See [`KvCache::store`].
    pub fn store(self, k: &Tensor, v: &Tensor, positions: &Positions) -> Result<(Tensor, Tensor)> {
        self.cache.store(self.layer, k, v, positions)
    }
}

impl std::fmt::Debug for LayerCache<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerCache").field("layer", &self.layer).finish()
    }
}
