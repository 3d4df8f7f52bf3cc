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
    let p = probabilities(&grouped(q, sizes)?, k, visible, sizes, scale)?;
    ungrouped(&p.matmul(&merged(v, sizes)?)?, sizes)
}

/// The output, and per query and head the logarithm of its sum of exponentials, `[batch, seq, heads]`, in f32 or wider.
pub(super) fn forward_with_sums(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    visible: &Visible,
    sizes: Sizes,
    scale: f64,
) -> Result<(Tensor, Tensor)> {
    let (scores, mask) = masked_scores(&grouped(q, sizes)?, k, visible, sizes, scale)?;
    let sums = scores.log_sum_exp(D::Minus1)?.transpose(1, 2)?.contiguous()?;
    let p = normalised(&scores, &mask, &sums, sizes)?.to_dtype(q.dtype())?;
    Ok((ungrouped(&p.matmul(&merged(v, sizes)?)?, sizes)?, sums))
}

/// Gradients of q, k and v. With `sums`, the logarithms of all sums of exponentials, the keys are a part of those that `out` was computed
/// from.
pub(super) fn backward(
    [q, k, v]: [&Tensor; 3],
    (out, sums): (&Tensor, Option<&Tensor>),
    dy: &Tensor,
    visible: &Visible,
    sizes: Sizes,
    scale: f64,
) -> Result<[Tensor; 3]> {
    let grouped_q = grouped(q, sizes)?;
    let p = match sums {
        None => probabilities(&grouped_q, k, visible, sizes, scale)?,
        Some(sums) => {
            let (scores, mask) = masked_scores(&grouped_q, k, visible, sizes, scale)?;
            normalised(&scores, &mask, sums, sizes)?.to_dtype(q.dtype())?
        }
    };
    let d_out = grouped(dy, sizes)?;
    let dp = d_out.matmul(&merged(v, sizes)?.t()?)?;
    let (wide_p, wide_dp) = (wide(&p)?, wide(&dp)?);
    let row_sum = (wide(&grouped(out, sizes)?)? * wide(&d_out)?)?.sum_keepdim(D::Minus1)?;
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
    let (scores, mask) = masked_scores(q, k, visible, s, scale)?;
    let p = candle_nn::ops::softmax(&scores, D::Minus1)?.broadcast_mul(&mask)?;
    p.reshape((s.batch * s.kv_heads, s.group() * s.queries, s.keys))?.to_dtype(q.dtype())
}

/// exp(score − sum) of visible keys, zeros elsewhere, in the shape of [`probabilities`].
fn normalised(scores: &Tensor, mask: &Tensor, sums: &Tensor, s: Sizes) -> Result<Tensor> {
    let sums = sums.to_dtype(scores.dtype())?.transpose(1, 2)?.unsqueeze(D::Minus1)?;
    // Hidden scores and rows that see nothing are far below zero: nothing overflows before the mask.
    let p = scores.broadcast_sub(&sums)?.minimum(0.)?.exp()?.broadcast_mul(mask)?;
    p.reshape((s.batch * s.kv_heads, s.group() * s.queries, s.keys))
}

/// scale · q·kᵀ, far below zero where hidden, `[batch, heads, seq, keys]`, and the mask.
fn masked_scores(q: &Tensor, k: &Tensor, visible: &Visible, s: Sizes, scale: f64) -> Result<(Tensor, Tensor)> {
    // Queries are scaled before the product, whose unscaled sums can exceed what f16 holds.
    let scores = wide(&(q * scale)?.matmul(&merged(k, s)?.t()?)?)?;
    let scores = scores.reshape((s.batch, s.heads, s.queries, s.keys))?;
    let mask = mask(visible, s, q)?.to_dtype(scores.dtype())?;
    // Finite, so that a row without any visible key stays finite and is zeroed by the mask.
    let hidden = mask.affine(1e30, -1e30)?;
    Ok((scores.broadcast_add(&hidden)?, mask))
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
