//! The loss and the gradient of a batch, cut into micro-batches.
//!
//! A mean over the batch is not a mean of means: micro-batches, and ranks, may hold unequal numbers of targets that count. So each
//! backward is of `sum / count`, `count` being that of the *whole* batch, and everything adds up.

use crate::data::Batch;
use crate::{Error, Result, segments};
use candle_core::{DType, Device};
use decoder::{Context, Decoder, Tokens};
use std::ops::Range;

/// A loss as its two parts, which add up over micro-batches and ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Σ −log p(target), in nats.
    pub sum: f64,
    /// Targets that count.
    pub count: usize,
}

impl Loss {
    /// In nats per target; NaN if none counts.
    pub fn mean(self) -> f64 {
        self.sum / self.count as f64
    }
}

impl std::ops::AddAssign for Loss {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }
}

impl std::iter::Sum for Loss {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut total, one| {
            total += one;
            total
        })
    }
}

/// Forward and backward of each of `micro_batches`, in order. Gradients of the mean over the whole (global) batch, in which `count`
/// targets count, go to the context's sink.
///
/// # Errors
/// No target counts, a segment failed, or the sink objects.
pub fn forward_backward(model: &Decoder, ctx: &Context, micro_batches: &[Batch], count: usize) -> Result<Loss> {
    if count == 0 {
        return Err(Error::Corpus {
            problem: "no target of the batch counts: there is nothing to learn from it".into(),
        });
    }
    let scale = 1.0 / count as f64;
    let one = |batch: &Batch| {
        let tokens = batch.tokens(model.device())?;
        let (sum, count) = segments::forward_backward(model, ctx, &tokens, &batch.targets, scale)?;
        Ok(Loss { sum, count })
    };
    micro_batches.iter().map(one).sum()
}

/// The loss without a gradient, of text that is not trained on.
///
/// # Errors
/// The forward failed.
pub fn evaluate(model: &Decoder, ctx: &Context, batches: impl IntoIterator<Item = Batch>) -> Result<Loss> {
    let ctx = without_sink(ctx);
    let one = |batch: Batch| {
        let loss = model.loss(&ctx, &batch.tokens(model.device())?, &batch.targets)?;
        Ok(Loss { sum: loss.sum.to_dtype(DType::F64)?.to_scalar()?, count: loss.count })
    };
    batches.into_iter().map(one).sum()
}

/// The same context, for a forward that keeps no graph.
pub(crate) fn without_sink(ctx: &Context) -> Context {
    let mut ctx = ctx.clone();
    ctx.sink = None;
    ctx
}

impl Batch {
    /// The inputs on `device`, every row from its beginning.
    ///
    /// # Errors
    /// There are none, or the device has no room.
    pub fn tokens(&self, device: &Device) -> Result<Tokens> {
        let rows: Vec<&[u32]> = self.inputs.chunks(self.seq.max(1)).collect();
        Ok(Tokens::from_zero(&rows, device)?)
    }

    /// Some of the rows: a rank's part.
    ///
    /// # Errors
    /// `rows` is not a range of this batch's rows.
    pub fn rows(&self, rows: Range<usize>) -> Result<Self> {
        if rows.start > rows.end || rows.end > self.rows {
            return Err(Error::setting("rows", format!("{rows:?}"), format!("a range in 0..{}", self.rows)));
        }
        let range = rows.start * self.seq..rows.end * self.seq;
        let (inputs, targets) = (self.inputs[range.clone()].to_vec(), self.targets[range].to_vec());
        Ok(Self { inputs, targets, rows: rows.len(), seq: self.seq })
    }

    /// At most `parts` batches of consecutive rows, as equal as possible, the longer ones first; none is empty.
    pub fn split(&self, parts: usize) -> Vec<Self> {
        let (base, longer) = (self.rows / parts.max(1), self.rows % parts.max(1));
        let mut next = 0;
        let sizes = (0..parts).map(|part| base + usize::from(part < longer)).filter(|&rows| rows > 0);
        sizes
            .map(|rows| {
                let range = next * self.seq..(next + rows) * self.seq;
                next += rows;
                let (inputs, targets) = (self.inputs[range.clone()].to_vec(), self.targets[range].to_vec());
                Self { inputs, targets, rows, seq: self.seq }
            })
            .collect()
    }
}
