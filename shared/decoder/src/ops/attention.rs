//! Scaled dot-product attention over the keys that each query sees, grouped-query heads included.
//!
//! `out = softmax(scale · q·kᵀ) · v`, where query head `h` uses key head `h / (heads / kv_heads)` (Ainslie et al., GQA).
//! On CPU the scores exist for one block of queries at a time, keys that no query of the block sees are skipped, and the
//! backward computes the scores again instead of keeping them (Dao et al., FlashAttention): memory is O(seq), not O(seq²).
//! Elsewhere the same is composed of candle operations with a mask.

mod blocks;
mod composed;
mod loops;
mod part;
mod step;

pub use part::{attention_of_part, attention_of_part_gradients};

use super::graph::with_backward;
use super::real::{by_type, bytes, is_native};
use super::visible::Visible;
use crate::context::Context;
use crate::error::Result;
use candle_core::{Result as CandleResult, Tensor, bail};
use ledger::Phase;
use loops::{backward_loop, forward_loop};

/// `q [batch, seq, heads, head_dim]`, `k` and `v` `[batch, kv_heads, keys, head_dim]` (any strides) →
/// `[batch, seq, heads, head_dim]`. A query that sees no key gives zeros.
///
/// # Errors
/// Shapes that do not fit, or an observer that objects.
pub fn attention(ctx: &Context, q: &Tensor, k: &Tensor, v: &Tensor, visible: &Visible, scale: f64) -> Result<Tensor> {
    let sizes = Sizes::of(q, k, v, visible)?;
    let value = forward(&q.detach(), &k.detach(), &v.detach(), visible, sizes, scale)?;
    // Two products over the visible pairs; the softmax between them is no matrix product.
    let products = 2 * visible.pairs() * sizes.heads as u64 * sizes.width as u64;
    let flops = 2 * products;
    let moved = 2 * bytes(q) + 2 * read_keys(visible, sizes) * q.dtype().size_in_bytes() as u64;
    ctx.observe("attention", ctx.unnamed(), Phase::Forward, value.dims(), flops, moved)?;
    if ctx.sink.is_none() {
        return Ok(value);
    }
    let (ctx, visible) = (ctx.clone(), visible.clone());
    let attached = with_backward("attention", [q, k, v], value, move |[q, k, v], out, dy| {
        let inputs = [&q.detach(), &k.detach(), &v.detach()];
        let gradients = backward(inputs, (&out.detach(), None), &dy.detach().contiguous()?, &visible, sizes, scale)?;
        // The scores once more, then four products.
        ctx.observe("attention", ctx.unnamed(), Phase::InputGradient, q.dims(), 5 * products, 2 * moved)?;
        Ok(gradients.map(Some))
    })?;
    Ok(attached)
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    queries: usize,
    heads: usize,
    kv_heads: usize,
    keys: usize,
    width: usize,
}

impl Sizes {
    fn of(q: &Tensor, k: &Tensor, v: &Tensor, visible: &Visible) -> CandleResult<Self> {
        let (batch, queries, heads, width) = q.dims4()?;
        let (key_batch, kv_heads, keys, key_width) = k.dims4()?;
        let fits =
            k.dims() == v.dims() && key_batch == batch && key_width == width && kv_heads > 0 && heads % kv_heads == 0;
        if !fits {
            bail!("attention: q {:?}, k {:?}, v {:?} do not fit together", q.shape(), k.shape(), v.shape())
        }
        if visible.queries() != queries || visible.rows() != batch || visible.end() > keys {
            bail!(
                "attention: the mask is for {} rows of {} queries and {} keys, found {batch}, {queries} and {keys}",
                visible.rows(),
                visible.queries(),
                visible.end()
            )
        }
        Ok(Self { batch, queries, heads, kv_heads, keys, width })
    }

    /// Query heads per key head.
    fn group(self) -> usize {
        self.heads / self.kv_heads
    }
}

/// Elements of keys that are read: per row, the keys that any of its queries sees.
fn read_keys(visible: &Visible, sizes: Sizes) -> u64 {
    let keys: usize = (0..visible.rows()).map(|row| seen(visible.row(row)).len()).sum();
    (keys * sizes.kv_heads * sizes.width) as u64
}

/// The keys that at least one of some queries sees, as one range.
fn seen(ranges: &[std::ops::Range<usize>]) -> std::ops::Range<usize> {
    let some = || ranges.iter().filter(|range| !range.is_empty());
    let start = some().map(|range| range.start).min().unwrap_or(0);
    start..some().map(|range| range.end).max().unwrap_or(start)
}

fn forward(q: &Tensor, k: &Tensor, v: &Tensor, visible: &Visible, sizes: Sizes, scale: f64) -> CandleResult<Tensor> {
    if is_native(q) {
        by_type!(q, forward_loop(&q.contiguous()?, &dense(k)?, &dense(v)?, visible, sizes, scale))
    } else {
        composed::forward(q, k, v, visible, sizes, scale)
    }
}

fn backward(
    [q, k, v]: [&Tensor; 3],
    (out, sums): (&Tensor, Option<&Tensor>),
    dy: &Tensor,
    visible: &Visible,
    sizes: Sizes,
    scale: f64,
) -> CandleResult<[Tensor; 3]> {
    if is_native(q) {
        let inputs = [&q.contiguous()?, &dense(k)?, &dense(v)?];
        by_type!(q, backward_loop(inputs, (out, sums), dy, visible, sizes, scale))
    } else {
        composed::backward([q, k, v], (out, sums), dy, visible, sizes, scale)
    }
}

/// The loops take keys with any strides as long as one head's elements are adjacent and rows do not overlap.
fn dense(keys: &Tensor) -> CandleResult<Tensor> {
    match (keys.stride(), keys.dims()) {
        (&[.., row, 1], &[.., width]) if row >= width => Ok(keys.clone()),
        _ => keys.contiguous(),
    }
}

#[cfg(test)]
mod tests;
