//! Your code: the exercises of chapter 1.
//!
//! Each function is a stub with a task. Replace its `todo!` by your own lines, then
//!
//! ```sh
//! cargo test -p ch1-single-gpu --test homework
//! ```
//!
//! says what is right and what is not. All are red at the start.
#![allow(clippy::todo, unused_variables)] // A stub is a `todo!` that uses nothing.

use candle_core::DType;
use decoder::{Config, Result};

/// Exercise 1.5: how many bytes does a KV cache hold with room for `batch` sequences of `context` tokens?
///
/// `config` has the model's `layers`, `heads`, `kv_heads`, `head_dim` and `hidden`; an element of the cache is a `dtype`, of
/// `dtype.size_in_bytes()` bytes. Every layer keeps every token.
///
/// With `--with homework:1.5`, `cargo ch1 kv` predicts with your function, and counts the bytes of a cache beside it.
pub fn cache_bytes(config: &Config, context: usize, batch: usize, dtype: DType) -> Result<u64> {
    todo!("exercise 1.5: cargo homework hint 1.5")
}
