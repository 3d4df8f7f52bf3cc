//! The one decoder, on candle.

pub mod config;
mod error;
#[cfg(feature = "hub")]
pub mod hub;
pub mod source;
pub mod weights;

pub use config::Config;
pub use error::{Error, Result};
