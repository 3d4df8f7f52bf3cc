//! From a prompt to a continuation.

mod generate;
pub mod sampling;

pub use generate::{Generated, Options, generate};
pub use sampling::{Sampler, Sampling};
