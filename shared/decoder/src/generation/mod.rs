//! From a prompt to a continuation.

pub mod sampling;

pub use sampling::{Sampler, Sampling};
