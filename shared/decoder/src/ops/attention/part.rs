//! Attention to a part of the keys, to be joined with that to the others (Liu et al., *Ring Attention*, 2023; the arithmetic is
//! FlashAttention's, from one block of keys to the next).
//!
//! With `L = ln Σ exp(score)` over the keys of a part, two parts' outputs weigh `exp(L₁ − L)` and `exp(L₂ − L)` in that of all their keys,
//! `L = ln(exp L₁ + exp L₂)`. Given the L of all keys, each part's gradients can be computed alone, and add up.

use super::loops::forward_with_sums_loop;
use super::{Sizes, backward, composed, dense, read_keys};
use crate::context::Context;
use crate::error::Result;
use crate::ops::real::{by_type, bytes, is_native};
use crate::ops::visible::Visible;
use candle_core::{Result as CandleResult, Tensor};
use ledger::Phase;

/// [`attention`](super::attention) to some of the keys, outside of any graph: the output `[batch, seq, heads, head_dim]`, and L
/// `[batch, seq, heads]`; a query that sees none of the keys gives zeros, and an L below every other.
///
/// # Errors
/// As [`attention`](super::attention).
pub fn attention_of_part(
    ctx: &Context,
    [q, k, v]: [&Tensor; 3],
    visible: &Visible,
    scale: f64,
) -> Result<(Tensor, Tensor)> {
    let sizes = Sizes::of(q, k, v, visible)?;
    let (out, sums) = forward([&q.detach(), &k.detach(), &v.detach()], visible, sizes, scale)?;
    let products = 2 * visible.pairs() * sizes.heads as u64 * sizes.width as u64;
    let moved = 2 * bytes(q) + 2 * read_keys(visible, sizes) * q.dtype().size_in_bytes() as u64;
    ctx.observe("attention", ctx.unnamed(), Phase::Forward, out.dims(), 2 * products, moved)?;
    // Of no key at all: finite, so that differences of two are.
    Ok((out, sums.maximum(-1e30)?))
}

/// What some of the keys contribute to the gradients of q, k and v, given output and L of *all* keys, and the gradient `dy` of that output.
///
/// # Errors
/// As [`attention`](super::attention).
pub fn attention_of_part_gradients(
    ctx: &Context,
    [q, k, v]: [&Tensor; 3],
    (out, sums): (&Tensor, &Tensor),
    dy: &Tensor,
    visible: &Visible,
    scale: f64,
) -> Result<[Tensor; 3]> {
    let sizes = Sizes::of(q, k, v, visible)?;
    let inputs = [&q.detach(), &k.detach(), &v.detach()];
    let (out, sums, dy) = (out.detach().contiguous()?, sums.detach().contiguous()?, dy.detach().contiguous()?);
    let gradients = backward(inputs, (&out, Some(&sums)), &dy, visible, sizes, scale)?;
    let products = 2 * visible.pairs() * sizes.heads as u64 * sizes.width as u64;
    let moved = 4 * bytes(q) + 4 * read_keys(visible, sizes) * q.dtype().size_in_bytes() as u64;
    ctx.observe("attention", ctx.unnamed(), Phase::InputGradient, q.dims(), 5 * products, moved)?;
    Ok(gradients)
}

fn forward([q, k, v]: [&Tensor; 3], visible: &Visible, sizes: Sizes, scale: f64) -> CandleResult<(Tensor, Tensor)> {
    if is_native(q) {
        by_type!(q, forward_with_sums_loop(&q.contiguous()?, &dense(k)?, &dense(v)?, visible, sizes, scale))
    } else {
        composed::forward_with_sums(q, k, v, visible, sizes, scale)
    }
}
