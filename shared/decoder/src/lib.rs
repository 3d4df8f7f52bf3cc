//! The one decoder, on candle.

pub mod config;
mod error;
mod names;
pub mod weights;

pub use config::Config;
pub use error::{Error, Result};
