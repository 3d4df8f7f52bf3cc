//! The one decoder, on candle: from a folder of weights to tokens and gradients.
//!
//! ```text
//! config.json ─▶ config ─┐
//! weights ───────────────┼─▶ model ─▶ generation ─▶ text
//! tokenizer.json ─▶ tokenizer         ▲
//!                     split, ops, cache
//! ```
//!
//! - [`source`]: what a user calls a model; [`config`]: what it is made of; [`weights`]: where its weights come from;
//! - [`model`]: the decoder itself; [`split`]: the places where it may be cut; [`ops`]: what it computes with, forward and
//!   backward; [`cache`]: keys and values of past tokens;
//! - [`tokenizer`], [`generation`]: from text to text; [`shape`]: the exact sizes of a model from its shape alone.
//!
//! It knows nothing of ranks: a chapter that distributes the decoder implements [`split`]'s traits.

// Linked, not used: see there.
#[cfg(feature = "notebook")]
use candle_dylib as _;

pub mod cache;
pub mod config;
mod context;
mod error;
pub mod generation;
#[cfg(feature = "hub")]
pub mod hub;
pub mod model;
mod names;
pub mod ops;
mod parameter;
pub mod positions;
pub mod random;
pub mod shape;
pub mod source;
pub mod split;
pub mod tokenizer;
pub mod weights;

pub use config::Config;
pub use context::Context;
pub use error::{Error, Result};
pub use model::Decoder;
pub use parameter::Parameter;
pub use positions::{Positions, Tokens};
