//! The matrix products of one layer, one by one: what stands beside the operations that an observer hears of.

use super::count::{Count, count, positive};
use super::flops::{Cached, Pairs, visible_pairs};
use super::memory::element_bytes;
use super::model::{Attention, ModelShape};
use super::projection::Projection;
use crate::error::Result;
use candle_core::DType;

/// One predicted operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationCount {
    /// What it is, as in [`ledger::Operation::name`]: `linear` or `attention`.
    pub operation: &'static str,
    /// Which one, as the end of the weight's name: `q_proj`; `experts.up_proj` stands for all experts together.
    pub part: &'static str,
    /// Rows of the result: tokens, or tokens · experts per token.
    pub rows: u64,
    /// Columns of the result.
    pub columns: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read and written: operands and result once each. Of routed experts at most as many are read as there are rows.
    pub bytes: u64,
}

impl ModelShape {
    /// The matrix products of layer `index` when `batch` sequences with `past` cached tokens each get `new` more, in
    /// order, with causal attention; elements of type `dtype`. Their FLOPs are the layer's part of
    /// [`ModelShape::prefill_flops`] (`past` = 0) and of [`ModelShape::decode_step_flops`] (`new` = 1).
    ///
    /// Latent attention is predicted with expanded keys and values where `past` is 0, else in the latent's space.
    ///
    /// # Errors
    /// No such layer, `batch` or `new` is 0, `dtype` has no whole bytes, or a number does not fit in 64 bits.
    pub fn layer_operations(
        &self,
        index: u64,
        batch: u64,
        new: u64,
        past: u64,
        dtype: DType,
    ) -> Result<Vec<OperationCount>> {
        let run = self.layer(index)?;
        let size = element_bytes(dtype)?;
        let (batch, new, past) = (positive("batch", batch)?, positive("new", new)?, count(past));
        let rows = batch * new;

        let mut projections = self.attention.projections(self.hidden);
        let output = projections.pop();
        let mut operations = projections.iter().map(|p| linear(p, rows, size)).collect::<Result<Vec<_>>>()?;

        let window = run.window.map(count);
        let pairs = batch * visible_pairs(past, new, window, Pairs::Causal);
        let seen = window.map_or(past + new, |window| (past + new).min(window + new.saturating_sub(count(1))));
        operations.push(self.attention.operation(rows, pairs, batch * seen, past, size)?);

        let routing = run.feed_forward.routing(self.hidden);
        let feed_forward = run.feed_forward.projections(self.hidden);
        for projection in output.iter().chain(&routing).chain(&feed_forward) {
            operations.push(linear(projection, rows, size)?);
        }
        Ok(operations)
    }

    /// The head's matrix product for `rows` positions.
    ///
    /// # Errors
    /// `rows` is 0, `dtype` has no whole bytes, or a number does not fit in 64 bits.
    pub fn head_operation(&self, rows: u64, dtype: DType) -> Result<OperationCount> {
        linear(&self.head(), positive("rows", rows)?, element_bytes(dtype)?)
    }
}

/// X·W = Y: rows·inputs + entries + rows·outputs elements, 2·rows·entries FLOPs. A bias is an operation of its own.
fn linear(projection: &Projection, tokens: Count, size: Count) -> Result<OperationCount> {
    let rows = tokens * projection.used;
    let copies = projection.held.min(rows);
    let elements = rows * projection.inputs + copies * projection.entries() + rows * projection.outputs;
    Ok(OperationCount {
        operation: "linear",
        part: projection.part,
        rows: rows.u64("rows")?,
        columns: projection.outputs.u64("columns")?,
        flops: (2 * rows * projection.entries()).u64("flops")?,
        bytes: (elements * size).u64("bytes")?,
    })
}

impl Attention {
    /// Queries, keys and values read, result written, nothing of the size of queries · keys.
    fn operation(&self, rows: Count, pairs: Count, keys: Count, past: Count, size: Count) -> Result<OperationCount> {
        let cached = if past == Count::ZERO { Cached::No } else { Cached::Yes };
        let (query, key_and_value, result) = match *self {
            Self::Grouped { heads, kv_heads, head_dim, .. } => {
                let width = count(heads) * head_dim;
                (width, 2 * count(kv_heads) * head_dim, width)
            }
            Self::Latent { heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim, .. } => {
                let heads = count(heads);
                match cached {
                    Cached::No => (
                        heads * (count(qk_nope_head_dim) + qk_rope_head_dim),
                        heads * (count(qk_nope_head_dim) + qk_rope_head_dim + v_head_dim),
                        heads * v_head_dim,
                    ),
                    Cached::Yes => {
                        let latent = count(kv_lora_rank) + qk_rope_head_dim;
                        (heads * latent, latent, heads * kv_lora_rank)
                    }
                }
            }
        };
        let elements = rows * query + keys * key_and_value + rows * result;
        Ok(OperationCount {
            operation: "attention",
            part: "attention",
            rows: rows.u64("rows")?,
            columns: result.u64("columns")?,
            flops: (pairs * self.flops_per_pair(cached)).u64("flops")?,
            bytes: (elements * size).u64("bytes")?,
        })
    }
}
