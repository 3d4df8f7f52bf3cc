//! Attention out of candle operations, for devices that our loops do not run on.

use super::Sizes;
use crate::ops::real::wide;
use crate::ops::visible::Visible;
use candle_core::{D, Result, Tensor};

/// See [`super::attention`].
pub(super) fn forward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    visible: &Visible,
    sizes: Sizes,
    scale: f64,
) -> Result<Tensor> {
    let p = probabilities(&grouped(q, sizes)?, &k.contiguous()?, visible, sizes, scale)?;
    ungrouped(&p.matmul(&merged(v, sizes)?)?, sizes)
}

/// Gradients of q, k and v.
pub(super) fn backward(
    [q, k, v]: [&Tensor; 3],
    dy: &Tensor,
    visible: &Visible,
    sizes: Sizes,
    scale: f64,
) -> Result<[Tensor; 3]> {
    let grouped_q = grouped(q, sizes)?;
    let p = probabilities(&grouped_q, k, visible, sizes, scale)?;
    let d_out = grouped(dy, sizes)?;
    let dp = d_out.matmul(&merged(v, sizes)?.t()?)?;
    let (wide_p, wide_dp) = (wide(&p)?, wide(&dp)?);
    let row_sum = (&wide_p * &wide_dp)?.sum_keepdim(D::Minus1)?;
    let d_scores = ((wide_p * wide_dp.broadcast_sub(&row_sum)?)? * scale)?.to_dtype(q.dtype())?;
    let keys = (sizes.batch, sizes.kv_heads, sizes.keys, sizes.width);
    let dq = ungrouped(&d_scores.matmul(&merged(k, sizes)?)?, sizes)?;
    let dk = d_scores.t()?.matmul(&grouped_q)?.reshape(keys)?;
    let dv = p.t()?.matmul(&d_out)?.reshape(keys)?;
    Ok([dq, dk, dv])
}

/// `[batch, seq, heads, width]` → `[batch · kv_heads, group · seq, width]`: the queries of one key head together.
fn grouped(q: &Tensor, s: Sizes) -> Result<Tensor> {
    q.transpose(1, 2)?.contiguous()?.reshape((s.batch * s.kv_heads, s.group() * s.queries, s.width))
}

/// The way back, contiguous.
fn ungrouped(out: &Tensor, s: Sizes) -> Result<Tensor> {
    out.reshape((s.batch, s.heads, s.queries, s.width))?.transpose(1, 2)?.contiguous()
}

fn merged(keys: &Tensor, s: Sizes) -> Result<Tensor> {
    keys.contiguous()?.reshape((s.batch * s.kv_heads, s.keys, s.width))
}

/// softmax(scale · q·kᵀ) over visible keys, `[batch · kv_heads, group · seq, keys]`; rows that see nothing are zeros.
fn probabilities(q: &Tensor, k: &Tensor, visible: &Visible, s: Sizes, scale: f64) -> Result<Tensor> {
    // Queries are scaled before the product, whose unscaled sums can exceed what f16 holds.
    let scores = wide(&(q * scale)?.matmul(&merged(k, s)?.t()?)?)?;
    let scores = scores.reshape((s.batch, s.heads, s.queries, s.keys))?;
    let mask = mask(visible, s, q)?.to_dtype(scores.dtype())?;
    // Finite, so that a row without any visible key stays finite and is zeroed by the mask.
    let hidden = mask.affine(1e30, -1e30)?;
    let p = candle_nn::ops::softmax(&scores.broadcast_add(&hidden)?, D::Minus1)?.broadcast_mul(&mask)?;
    p.reshape((s.batch * s.kv_heads, s.group() * s.queries, s.keys))?.to_dtype(q.dtype())
}

/// 1 where a query sees a key, `[batch, 1, seq, keys]`.
fn mask(visible: &Visible, s: Sizes, like: &Tensor) -> Result<Tensor> {
    let mut mask = vec![0f32; s.batch * s.queries * s.keys];
    for row in 0..s.batch {
        for (query, range) in visible.row(row).iter().enumerate() {
            let start = (row * s.queries + query) * s.keys;
            mask[start + range.start..start + range.end].fill(1.);
        }
    }
    Tensor::from_vec(mask, (s.batch, 1, s.queries, s.keys), like.device())
}
