//! The one decoder, on candle.

pub mod config;
mod error;
pub mod generation;
pub mod random;
pub mod tokenizer;
pub mod weights;

pub use config::Config;
pub use error::{Error, Result};
