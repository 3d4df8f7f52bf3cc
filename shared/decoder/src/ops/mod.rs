//! Every operation of the decoder, with its backward.
//!
//! Read [`with_backward`] first: it is the one mechanism by which a computed value gets a backward of our own in candle's
//! graph. Then any operation, for instance [`linear`]: a forward (a fast loop on CPU, composed candle operations
//! elsewhere), a backward in tensors, and what it tells the [`Observer`](ledger::Observer).
//!
//! Parameters are not candle variables. The gradient of a parameter leaves through the [`GradientSink`], by name, as soon
//! as the backward reaches the operation that used it. Without a sink there is no graph at all: inference keeps nothing.

mod activation;
mod add;
mod attention;
mod bias;
#[cfg(test)]
mod composed_tests;
mod cross_entropy;
mod embedding;
mod gemv;
mod graph;
mod linear;
mod matrix;
mod norm;
mod product;
mod real;
mod rotary;
mod rows;
mod sink;
mod visible;

pub use activation::gated;
pub use add::add;
pub use attention::{attention, attention_of_part, attention_of_part_gradients};
pub use bias::add_bias;
pub use cross_entropy::{IGNORED, LossSum, Reduction, VocabularyPart, head_cross_entropy, head_cross_entropy_of_part};
pub use embedding::{embedding, embedding_of_part};
pub use graph::with_backward;
pub use linear::linear;
pub use norm::rms_norm;
pub use rotary::{Rotation, rotate};
pub use sink::{GradientSink, WeightGradient};
pub use visible::Visible;
