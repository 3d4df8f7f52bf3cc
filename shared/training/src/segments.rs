//! The model as a chain of segments whose backward can be run one by one.
//!
//! candle's `backward()` starts from a scalar and runs to the leaves in one go. Here the graph is cut between segments: the
//! embedding, each layer, and the head with the loss. [`Chain`] runs them forward and keeps each graph in a [`Saved`];
//! [`Saved::backward`] injects the gradient of its output and returns that of its input. Pipeline stages exchange the two,
//! recomputation drops the `Saved` and makes it again, overlap starts a collective when a backward has returned.
//!
//! ```text
//!        ids ─▶ embedding ─▶ x₀ │ layer 0 ─▶ x₁ │ … │ layer n−1 ─▶ xₙ │ norm, head, loss ─▶ sum
//!                     ◀── dx₀   │       ◀── dx₁ │   │         ◀── dxₙ │              ◀── 1 / count
//! ```

use crate::error::Result;
use candle_core::{DType, Tensor, Var};
use decoder::model::Place;
use decoder::ops::with_backward;
use decoder::{Context, Decoder, Tokens};
use ledger::Kind;

/// A model, a batch and a context: what all segments of one forward share.
pub struct Chain<'a> {
    model: &'a Decoder,
    ctx: &'a Context,
    tokens: &'a Tokens,
    place: Place,
}

/// The graph of one segment, kept for its backward.
#[derive(Debug)]
pub struct Saved {
    /// The leaf at which the graph is cut; `None` for the embedding.
    input: Option<Var>,
    output: Tensor,
}

/// The loss of the last segment, kept for its backward.
#[derive(Debug)]
pub struct SavedLoss {
    saved: Saved,
    /// Σ −log p(target), in nats.
    pub sum: f64,
    /// Targets that count.
    pub count: usize,
}

impl<'a> Chain<'a> {
    /// For one forward of `tokens` through the layers that `model` holds.
    ///
    /// # Errors
    /// The tokens exceed the model's context.
    pub fn new(model: &'a Decoder, ctx: &'a Context, tokens: &'a Tokens) -> Result<Self> {
        let _kind = ledger::scope(Kind::Activations);
        Ok(Self { model, ctx, tokens, place: model.place(tokens.positions())? })
    }

    /// The first segment: token ids to hidden states `[batch, seq, hidden]`.
    ///
    /// # Errors
    /// The embedding is not held here.
    pub fn embed(&self) -> Result<(Tensor, Saved)> {
        let _kind = ledger::scope(Kind::Activations);
        let output = self.model.embed(self.ctx, self.tokens.ids())?;
        Ok((output.detach(), Saved { input: None, output }))
    }

    /// The segment of the layer with local number `index`: `x [batch, seq, hidden]` to the same shape.
    ///
    /// # Errors
    /// The layer is not held here, or its computation failed.
    pub fn layer(&self, index: usize, x: &Tensor) -> Result<(Tensor, Saved)> {
        let _kind = ledger::scope(Kind::Activations);
        let input = Var::from_tensor(&x.detach())?;
        let output = self.model.layer(self.ctx, index, input.as_tensor(), &self.place, None)?;
        Ok((output.detach(), Saved { input: Some(input), output }))
    }

    /// Final norm, head and loss over `targets`, one per token.
    ///
    /// # Errors
    /// The segment's computation failed.
    pub fn loss(&self, x: &Tensor, targets: &[u32]) -> Result<SavedLoss> {
        let _kind = ledger::scope(Kind::Activations);
        let input = Var::from_tensor(&x.detach())?;
        let loss = self.model.head_loss(self.ctx, input.as_tensor(), targets)?;
        let sum = loss.sum.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        Ok(SavedLoss { saved: Saved { input: Some(input), output: loss.sum }, sum, count: loss.count })
    }
}

impl Saved {
    /// The backward of this segment: gradients of parameters go to the sink, the gradient of the input is returned
    /// (`None` for the embedding), and what the segment kept is freed.
    ///
    /// # Errors
    /// The backward failed.
    pub fn backward(self, d_output: &Tensor) -> Result<Option<Tensor>> {
        let _kind = ledger::scope(Kind::Activations);
        let mut gradients = inject(&self.output, d_output)?.backward()?;
        drop(self.output);
        Ok(self.input.and_then(|input| gradients.remove(input.as_tensor())))
    }
}

impl SavedLoss {
    /// The backward of `scale ·` [`SavedLoss::sum`]; `scale` is 1 over the count of the whole (global) batch, so that
    /// micro-batches and ranks add up to the mean.
    ///
    /// # Errors
    /// The backward failed.
    pub fn backward(self, scale: f64) -> Result<Option<Tensor>> {
        let output = &self.saved.output;
        let scale = Tensor::new(scale, output.device())?.to_dtype(output.dtype())?;
        self.saved.backward(&scale)
    }
}

/// A scalar whose backward hands `d_output` to `output`: the start of a backward that does not begin at a loss.
fn inject(output: &Tensor, d_output: &Tensor) -> Result<Tensor> {
    let start = Tensor::zeros((), output.dtype(), output.device())?;
    let d_output = d_output.clone();
    Ok(with_backward("inject", [output], start, move |_, _, _| Ok([Some(d_output.clone())]))?)
}

/// Forward and backward of one batch through all segments: returns (loss sum, count); gradients of
/// `scale · sum` go to the context's sink.
///
/// # Errors
/// A segment failed, or the model is not whole here.
pub fn forward_backward(
    model: &Decoder,
    ctx: &Context,
    tokens: &Tokens,
    targets: &[u32],
    scale: f64,
) -> Result<(f64, usize)> {
    let chain = Chain::new(model, ctx, tokens)?;
    let (mut x, embedded) = chain.embed()?;
    let mut saved = vec![embedded];
    for index in 0..model.layers().len() {
        let (y, kept) = chain.layer(index, &x)?;
        saved.push(kept);
        x = y;
    }
    let loss = chain.loss(&x, targets)?;
    drop(x);
    let (sum, count) = (loss.sum, loss.count);
    let mut dx = loss.backward(scale)?;
    while let (Some(kept), Some(dy)) = (saved.pop(), dx.take()) {
        dx = kept.backward(&dy)?;
    }
    Ok((sum, count))
}
