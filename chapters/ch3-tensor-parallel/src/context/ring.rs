//! Ring attention (Liu et al., *Ring Attention with Blockwise Transformers*, 2023).
//!
//! Keys and values go around: in each of cp steps a rank attends to what it has just received and passes it on, and joins the result with
//! what it had. In the backward the gradients of keys and values travel with them and are home after a full round.
//!
//! ```text
//!             step 0        step 1        step 2        step 3
//!   rank 0    own k, v ──▶  rank 3's ──▶  rank 2's ──▶  rank 1's
//! ```

use crate::error::in_decoder;
use candle_core::{D, Tensor};
use collective::{Communicator, Pending};
use decoder::cache::LayerCache;
use decoder::ops::{self, Visible};
use decoder::split::{Attend, Projected};
use decoder::{Context, Error, Positions, Result};
use std::ops::Range;
use std::sync::Arc;

/// Attention whose keys are spread over the ranks of a group.
pub(crate) struct RingAttention {
    pub(crate) group: Arc<dyn Communicator>,
    /// By rank and sequence, the positions of its two chunks.
    pub(crate) chunks: Vec<Vec<[Range<usize>; 2]>>,
}

/// What one attention call needs to compute any step, forward or backward.
#[derive(Clone)]
struct Steps {
    ctx: Context,
    group: Arc<dyn Communicator>,
    chunks: Vec<Vec<[Range<usize>; 2]>>,
    window: Option<usize>,
    scale: f64,
}

impl Attend for RingAttention {
    /// Without a cache: a whole prompt at once. The local rows are the two chunks of each sequence.
    fn attend(
        &self,
        ctx: &Context,
        Projected { q, k, v }: Projected,
        positions: &Positions,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor> {
        let own = self.chunks[self.group.rank()].iter().flatten().map(|range| (range.start, range.len()));
        if !own.eq(positions.spans()) {
            return Err(Error::Setting {
                name: "positions",
                found: "other tokens than this rank's chunks of the prompt".into(),
                expected: "the tokens of ContextParallel::tokens".into(),
            });
        }
        let (k, v) = match cache {
            Some(cache) => cache.store(&k, &v, positions)?,
            None => (k.transpose(1, 2)?, v.transpose(1, 2)?),
        };
        let scale = 1. / (q.dim(D::Minus1)? as f64).sqrt();
        let steps = Steps { ctx: ctx.clone(), group: self.group.clone(), chunks: self.chunks.clone(), window, scale };
        let (out, sums) = steps.forward([&q.detach(), &k.detach(), &v.detach()])?;
        if ctx.sink.is_none() {
            return Ok(out);
        }
        let back = move |[q, k, v]: [&Tensor; 3], out: &Tensor, dy: &Tensor| {
            let gradients = steps.backward([q, k, v].map(Tensor::detach), (&out.detach(), &sums), &dy.detach())?;
            Ok(gradients.map(Some))
        };
        Ok(ops::with_backward("ring_attention", [&q, &k, &v], out, back)?)
    }
}

impl Steps {
    /// Output `[rows, seq, heads, head_dim]`, and the logarithms of the sums of exponentials over all keys, `[rows, seq, heads]`.
    fn forward(&self, [q, k, v]: [&Tensor; 3]) -> Result<(Tensor, Tensor)> {
        let mut keys = Tensor::stack(&[k, v], 0)?;
        let mut joined: Option<(Tensor, Tensor)> = None;
        for step in 0..self.group.size() {
            // Passed on while it is used.
            let next = self.pass_on(&keys, step)?;
            let part = self.attend(q, &keys, self.source(step))?;
            joined = Some(match joined {
                None => part,
                Some(before) => join(before, part)?,
            });
            if let Some(next) = next {
                keys = next.wait().map_err(in_decoder)?;
            }
        }
        joined.ok_or_else(|| Error::Candle(candle_core::Error::Msg("ring attention over no ranks".into())))
    }

    /// Gradients of q, k and v, in their shapes.
    fn backward(
        &self,
        [q, k, v]: [Tensor; 3],
        (out, sums): (&Tensor, &Tensor),
        dy: &Tensor,
    ) -> candle_core::Result<[Tensor; 3]> {
        let mut keys = Tensor::stack(&[&k, &v], 0)?;
        let mut d_keys = keys.zeros_like()?;
        let mut dq = q.zeros_like()?;
        for step in 0..self.group.size() {
            let next = self.pass_on(&keys, step)?;
            let (dq_part, d_keys_part) = self.gradients(&q, &keys, (out, sums), dy, self.source(step))?;
            dq = (dq + dq_part)?;
            // The sum goes with its keys, and after the last step home.
            let sum = (d_keys + d_keys_part)?;
            d_keys = self.group.send_recv(&sum, self.next(), self.previous())?;
            if let Some(next) = next {
                keys = next.wait()?;
            }
        }
        Ok([dq, d_keys.get(0)?, d_keys.get(1)?])
    }

    /// Sends keys and values to the next rank and begins to receive the previous one's, unless this is the last step.
    fn pass_on(&self, keys: &Tensor, step: usize) -> Result<Option<Pending<Tensor>>> {
        if step + 1 == self.group.size() {
            return Ok(None);
        }
        self.group.start_send_recv(keys, self.next(), self.previous()).map(Some).map_err(in_decoder)
    }

    fn next(&self) -> usize {
        (self.group.rank() + 1) % self.group.size()
    }

    fn previous(&self) -> usize {
        (self.group.rank() + self.group.size() - 1) % self.group.size()
    }

    /// Whose keys are here in `step`.
    fn source(&self, step: usize) -> usize {
        (self.group.rank() + self.group.size() - step) % self.group.size()
    }

    /// All local queries against the keys of rank `source`, `keys [2, rows, kv_heads, seq, head_dim]`.
    fn attend(&self, q: &Tensor, keys: &Tensor, source: usize) -> Result<(Tensor, Tensor)> {
        let parts = (0..self.chunks[source].len()).map(|row| {
            let [k, v] = self.sequence(keys, source, row)?;
            ops::attention_of_part(
                &self.ctx,
                [&rows_of(q, row)?, &k, &v],
                &self.visible(row, source, q.dim(1)?),
                self.scale,
            )
        });
        let (out, sums): (Vec<_>, Vec<_>) = parts.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok((Tensor::cat(&out, 0)?, Tensor::cat(&sums, 0)?))
    }

    /// What the keys of rank `source` contribute to the gradient of q, and the gradients of these keys and values.
    fn gradients(
        &self,
        q: &Tensor,
        keys: &Tensor,
        (out, sums): (&Tensor, &Tensor),
        dy: &Tensor,
        source: usize,
    ) -> candle_core::Result<(Tensor, Tensor)> {
        let (mut dq, mut d_keys) = (Vec::new(), Vec::new());
        for row in 0..self.chunks[source].len() {
            let [k, v] = self.sequence(keys, source, row)?;
            let visible = self.visible(row, source, q.dim(1)?);
            let (out, sums) = (rows_of(out, row)?, rows_of(sums, row)?);
            let inputs = [&rows_of(q, row)?, &k, &v];
            let [dq_part, dk, dv] = ops::attention_of_part_gradients(
                &self.ctx,
                inputs,
                (&out, &sums),
                &rows_of(dy, row)?,
                &visible,
                self.scale,
            )?;
            dq.push(dq_part);
            d_keys.push(self.rows_again(&Tensor::stack(&[dk, dv], 0)?, source, row, keys.dim(3)?)?);
        }
        Ok((Tensor::cat(&dq, 0)?, Tensor::cat(&d_keys, 1)?))
    }

    /// Keys and values of one sequence: its two chunks end to end, without padding, once per local row of queries
    /// (`[2, kv_heads, keys, head_dim]` each).
    fn sequence(&self, keys: &Tensor, source: usize, row: usize) -> candle_core::Result<[Tensor; 2]> {
        let [first, second] = &self.chunks[source][row];
        let chunk = |index: usize, length: usize| keys.narrow(1, 2 * row + index, 1)?.narrow(3, 0, length);
        let both = Tensor::cat(&[chunk(0, first.len())?, chunk(1, second.len())?], 3)?;
        let twice = Tensor::cat(&[&both, &both], 1)?;
        Ok([twice.get(0)?, twice.get(1)?])
    }

    /// The way back for gradients `[2, 2, kv_heads, keys, head_dim]`: summed over the two rows of queries, cut into the two chunks, padded
    /// to `seq` (`[2, 2, kv_heads, seq, head_dim]`).
    fn rows_again(&self, gradients: &Tensor, source: usize, row: usize, seq: usize) -> candle_core::Result<Tensor> {
        let sum = gradients.sum_keepdim(1)?;
        let mut first = 0;
        let chunks = self.chunks[source][row].iter().map(|range| {
            let chunk = sum.narrow(3, first, range.len())?.pad_with_zeros(3, 0, seq - range.len());
            first += range.len();
            chunk
        });
        Tensor::cat(&chunks.collect::<candle_core::Result<Vec<_>>>()?, 1)
    }

    /// Which keys of rank `source` the local queries of one sequence see: counted along its two chunks.
    fn visible(&self, row: usize, source: usize, seq: usize) -> Visible {
        let [first, second] = &self.chunks[source][row];
        // Keys before `position`.
        let before = |position: usize| {
            position.clamp(first.start, first.end) - first.start + position.clamp(second.start, second.end)
                - second.start
        };
        let queries = self.chunks[self.group.rank()][row].iter().flat_map(|own| {
            (0..seq).map(|index| {
                let position = own.start + index;
                let from = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
                if index < own.len() { before(from)..before(position + 1) } else { 0..0 }
            })
        });
        Visible::new(seq, queries.collect())
    }
}

/// The two local rows of one sequence.
fn rows_of(tensor: &Tensor, row: usize) -> candle_core::Result<Tensor> {
    tensor.narrow(0, 2 * row, 2)?.contiguous()
}

/// Attention to the keys of both parts, from that to each.
fn join((out, sums): (Tensor, Tensor), (more, its_sums): (Tensor, Tensor)) -> Result<(Tensor, Tensor)> {
    let largest = sums.maximum(&its_sums)?;
    let both = ((&sums - &largest)?.exp()? + (&its_sums - &largest)?.exp()?)?.log()?;
    let both = (both + largest)?;
    let weigh = |out: &Tensor, sums: &Tensor| {
        let weight = (sums - &both)?.exp()?.unsqueeze(D::Minus1)?.to_dtype(out.dtype())?;
        out.broadcast_mul(&weight)
    };
    let out = (weigh(&out, &sums)? + weigh(&more, &its_sums)?)?;
    Ok((out, both))
}
