//! What happens on the way of some tokens through one decoder layer: every operation in order, and the split points between them.
//!
//! Nothing is listed by hand: [`observe`] runs the model with an observer and with a [`Split`] that passes everything on and
//! writes down when it was asked. [`beside_formulas`] puts the predictions of [`decoder::shape`] next to what was heard.

use crate::Result;
use candle_core::{DType, Tensor};
use decoder::cache::{KvCache, LayerCache};
use decoder::ops::LossSum;
use decoder::shape::{ModelShape, OperationCount};
use decoder::split::{Attend, Block, Boundary, Partial, Projected, Split, Vocabulary};
use decoder::{Context, Decoder, Parameter, Positions, Tokens};
use ledger::{All, Kind, Observer, Operation};
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A place where the decoder may be cut; see [`Split`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Token ids become hidden states.
    Embed,
    /// Hidden states enter a block.
    Enter(Block),
    /// Queries meet keys and values.
    Attend,
    /// What a block computed leaves it.
    Leave(Block),
    /// Hidden states become logits.
    Logits,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = |block: &Block| match block {
            Block::Attention => "attention",
            Block::FeedForward => "feed-forward",
        };
        match self {
            Self::Embed => f.write_str("Vocabulary::embed"),
            Self::Enter(entered) => write!(f, "Boundary::enter({})", block(entered)),
            Self::Attend => f.write_str("Attend::attend"),
            Self::Leave(left) => write!(f, "Boundary::leave({})", block(left)),
            Self::Logits => f.write_str("Vocabulary::logits"),
        }
    }
}

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The computation reached a split point.
    Point(Point),
    /// An operation was executed.
    Operation(Operation),
}

/// Runs `tokens` through `model` and returns what happened in the embedding, in the layer with local number `layer`, and in
/// final norm and head (on each sequence's last token). All rows must be equally long.
///
/// # Errors
/// The model is not whole here, there is no such layer, or the forward failed.
pub fn observe(
    model: &Decoder,
    ctx: &Context,
    tokens: &Tokens,
    layer: usize,
    mut cache: Option<&mut dyn KvCache>,
) -> Result<Vec<Event>> {
    let recorder = Arc::new(Recorder::default());
    let recorded = recorder.watch(ctx);
    let place = model.place(tokens.positions())?;
    let mut x = model.embed(&recorded, tokens.ids())?;
    for index in 0..model.layers().len() {
        let ctx = if index == layer { &recorded } else { ctx };
        // The borrow of the cache must not outlive the layer's.
        let cache = cache.as_mut().map(|cache| &mut **cache as &mut dyn KvCache);
        x = model.layer(ctx, index, &x, &place, cache)?;
    }
    let last = x.narrow(1, tokens.positions().seq() - 1, 1)?.squeeze(1)?;
    model.head_logits(&recorded, &last)?;
    Ok(recorder.take())
}

/// Writes down operations and split points, in order.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    /// `ctx`, watched.
    fn watch(self: &Arc<Self>, ctx: &Context) -> Context {
        let inner = ctx.split.clone();
        let marked = Arc::new(Marked { inner: inner.clone(), recorder: self.clone() });
        let split =
            Split { placement: inner.placement, boundary: marked.clone(), attend: marked.clone(), vocabulary: marked };
        let observer: Arc<dyn Observer> = Arc::new(All(vec![ctx.observer.clone(), self.clone()]));
        ctx.clone().with_observer(observer).with_split(split)
    }

    fn push(&self, event: Event) {
        // The list is the host's: the computation it watches must not pay for it.
        let _host = ledger::scope(Kind::Host);
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Recorder {
    fn observe(&self, operation: &Operation) -> Result<(), ledger::Error> {
        self.push(Event::Operation(operation.clone()));
        Ok(())
    }
}

/// A split that does what `inner` does and says so.
struct Marked {
    inner: Split,
    recorder: Arc<Recorder>,
}

impl Marked {
    fn mark(&self, point: Point) {
        self.recorder.push(Event::Point(point));
    }
}

impl Boundary for Marked {
    fn enter(&self, ctx: &Context, block: Block, x: Tensor) -> decoder::Result<Tensor> {
        self.mark(Point::Enter(block));
        self.inner.boundary.enter(ctx, block, x)
    }

    fn leave(&self, ctx: &Context, block: Block, partial: Partial) -> decoder::Result<Tensor> {
        self.mark(Point::Leave(block));
        self.inner.boundary.leave(ctx, block, partial)
    }
}

impl Attend for Marked {
    fn attend(
        &self,
        ctx: &Context,
        projected: Projected,
        positions: &Positions,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> decoder::Result<Tensor> {
        self.mark(Point::Attend);
        self.inner.attend.attend(ctx, projected, positions, window, cache)
    }
}

impl Vocabulary for Marked {
    fn embed(&self, ctx: &Context, ids: &Tensor, weight: &Parameter, dtype: DType) -> decoder::Result<Tensor> {
        self.mark(Point::Embed);
        self.inner.vocabulary.embed(ctx, ids, weight, dtype)
    }

    fn logits(&self, ctx: &Context, x: &Tensor, weight: &Parameter) -> decoder::Result<Tensor> {
        self.mark(Point::Logits);
        self.inner.vocabulary.logits(ctx, x, weight)
    }

    fn loss(&self, ctx: &Context, x: &Tensor, weight: &Parameter, targets: &[u32]) -> decoder::Result<LossSum> {
        self.mark(Point::Logits);
        self.inner.vocabulary.loss(ctx, x, weight, targets)
    }
}

/// How many tokens pass the layer, and in which types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Sequences.
    pub batch: u64,
    /// New tokens per sequence.
    pub new: u64,
    /// Tokens per sequence whose keys and values are in the cache.
    pub past: u64,
    /// Type of the weights.
    pub weights: DType,
    /// Type of the activations.
    pub activations: DType,
}

/// One entry of the list, with the formula's numbers beside those of a matrix product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Step {
    /// A split point.
    Point {
        /// Its name, as in [`decoder::split`].
        point: String,
    },
    /// An operation.
    Operation {
        /// What it is.
        operation: &'static str,
        /// Its weight, empty if it has none.
        weight: String,
        /// Shape of its result.
        shape: Vec<usize>,
        /// Observed FLOPs.
        flops: u64,
        /// Observed bytes, read and written.
        bytes: u64,
        /// What the formula says; `None` for element-wise operations, which formulas do not count.
        predicted: Option<Cost>,
    },
}

/// FLOPs and bytes of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Step {
    /// Whether the formula's numbers are the observed ones; `None` where there is no formula.
    pub fn holds(&self) -> Option<bool> {
        match *self {
            Self::Operation { flops, bytes, predicted: Some(predicted), .. } => {
                Some(predicted == Cost { flops, bytes })
            }
            _ => None,
        }
    }
}

/// `events` of layer `layer` of `shape`, each matrix product beside [`ModelShape::layer_operations`] (the last one, the head's,
/// beside [`ModelShape::head_operation`]), in the same order.
///
/// # Errors
/// The formulas refuse the numbers.
pub fn beside_formulas(events: &[Event], shape: &ModelShape, layer: u64, pass: Pass) -> Result<Vec<Step>> {
    let mut predicted = shape.layer_operations(layer, pass.batch, pass.new, pass.past, pass.activations)?;
    predicted.push(shape.head_operation(pass.batch, pass.activations)?);
    let mut predicted = predicted.iter();
    let mut step = |event: &Event| match event {
        Event::Point(point) => Step::Point { point: point.to_string() },
        Event::Operation(observed) => Step::Operation {
            operation: observed.name,
            weight: observed.label.to_string(),
            shape: observed.shape.clone(),
            flops: observed.flops,
            bytes: observed.bytes,
            predicted: match observed.name {
                "linear" | "attention" => predicted.next().map(|operation| cost(operation, pass)),
                _ => None,
            },
        },
    };
    Ok(events.iter().map(&mut step).collect())
}

/// The formula's cost where weights may be stored narrower than the activations.
fn cost(operation: &OperationCount, pass: Pass) -> Cost {
    let narrower = pass.activations.size_in_bytes().saturating_sub(pass.weights.size_in_bytes()) as u64;
    let weight_entries = if operation.operation == "linear" { operation.flops / (2 * operation.rows) } else { 0 };
    Cost { flops: operation.flops, bytes: operation.bytes.saturating_sub(narrower * weight_entries) }
}
