//! The one decoder, on candle.

pub mod config;
mod error;
pub mod shape;
pub mod weights;

pub use config::Config;
pub use error::{Error, Result};
