//! Generating with a KV cache that is spread over ranks.
//!
//! A decode step has one query per sequence: there is no sequence to cut, but the cache is long. Each rank keeps the keys of every cp-th
//! position, attends to those, and the parts are joined by their sums of exponentials. So a sequence has room for cp times the tokens; the
//! projections are computed on every rank, as they would be on one.

use crate::error::in_decoder;
use candle_core::{D, Tensor};
use collective::Communicator;
use decoder::cache::LayerCache;
use decoder::ops::{self, Visible};
use decoder::split::{Attend, Projected, Split};
use decoder::{Context, Error, Positions, Result};
use std::sync::Arc;

/// Attention to a cache whose position p is on rank p mod cp.
pub struct SpreadKeys {
    group: Arc<dyn Communicator>,
}

impl SpreadKeys {
    /// `split`, with keys and values spread over `group`.
    pub fn split(group: &Arc<dyn Communicator>, split: Split) -> Split {
        Split { attend: Arc::new(Self { group: group.clone() }), ..split }
    }

    /// Own positions below `position`.
    fn before(&self, position: usize) -> usize {
        (position + self.group.size() - 1 - self.group.rank()) / self.group.size()
    }

    /// Of `x [batch, seq, kv_heads, head_dim]` the tokens at own positions, padded.
    fn own(&self, x: &Tensor, positions: &Positions, own: &Positions) -> candle_core::Result<Tensor> {
        let (_, _, heads, width) = x.dims4()?;
        let rows = positions.spans().zip(own.spans()).enumerate().map(|(row, ((start, _), (first, count)))| {
            let tokens = (first..first + count).map(|key| (key * self.group.size() + self.group.rank() - start) as u32);
            let tokens = Tensor::from_vec(tokens.collect::<Vec<_>>(), count, x.device())?;
            let kept = x.get(row)?.contiguous()?.index_select(&tokens, 0)?;
            let padding = Tensor::zeros((own.seq() - count, heads, width), x.dtype(), x.device())?;
            if count == own.seq() { Ok(kept) } else { Tensor::cat(&[&kept, &padding], 0) }
        });
        Tensor::stack(&rows.collect::<candle_core::Result<Vec<_>>>()?, 0)
    }

    /// Which own keys each query sees.
    fn visible(&self, positions: &Positions, window: Option<usize>) -> Visible {
        let seq = positions.seq();
        let queries = positions.spans().flat_map(|(start, length)| {
            (start..start + seq).map(move |position| {
                let from = window.map_or(0, |window| (position + 1).saturating_sub(window));
                if position < start + length { self.before(from)..self.before(position + 1) } else { 0..0 }
            })
        });
        Visible::new(seq, queries.collect())
    }
}

impl Attend for SpreadKeys {
    fn attend(
        &self,
        ctx: &Context,
        Projected { q, k, v }: Projected,
        positions: &Positions,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor> {
        if ctx.sink.is_some() {
            return Err(Error::Setting {
                name: "context parallelism",
                found: "a cache that is spread over ranks, in training".into(),
                expected: "attention around the ring: ContextParallel::split".into(),
            });
        }
        let spans = positions.spans().map(|(start, length)| {
            let first = self.before(start);
            (first, self.before(start + length) - first)
        });
        let (starts, lengths): (Vec<_>, Vec<_>) = spans.unzip();
        let own = Positions::new(starts, lengths);
        let (k, v) = (self.own(&k, positions, &own)?, self.own(&v, positions, &own)?);
        let (k, v) = match cache {
            Some(cache) => cache.store(&k, &v, &own)?,
            None => (k.transpose(1, 2)?, v.transpose(1, 2)?),
        };
        let scale = 1. / (q.dim(D::Minus1)? as f64).sqrt();
        let (out, sums) = ops::attention_of_part(ctx, [&q, &k, &v], &self.visible(positions, window), scale)?;
        self.join(&out, &sums)
    }

    fn kept(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.group.size())
    }
}

impl SpreadKeys {
    /// Attention to all keys, on every rank with the same bits, from that to each rank's.
    fn join(&self, out: &Tensor, sums: &Tensor) -> Result<Tensor> {
        let gather = |x: &Tensor| self.group.all_gather(&x.unsqueeze(0)?, 0).map_err(in_decoder);
        let (all, sums) = (gather(out)?, gather(sums)?);
        let largest = sums.max_keepdim(0)?;
        let weights = sums.broadcast_sub(&largest)?.exp()?;
        let weights = weights.broadcast_div(&weights.sum_keepdim(0)?)?.unsqueeze(D::Minus1)?.to_dtype(all.dtype())?;
        Ok(all.broadcast_mul(&weights)?.sum(0)?)
    }
}
