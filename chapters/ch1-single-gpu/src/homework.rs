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

use crate::throughput::Training;
use crate::xw::{Cost, Product};
use candle_core::DType;
use decoder::{Config, Result};
use lab::roofline::Roofline;

/// Exercise 1.2: what does X · W = Y cost, in FLOPs and in bytes?
///
/// X is `[rows, inputs]`, W is `[inputs, outputs]`, Y is `[rows, outputs]`: `product.rows()` and so on. A multiplication is one FLOP, and so
/// is an addition. Every element of X and W is read once, every element of Y is written once; `product.weight_size()` is the bytes of an
/// element of W, `product.activation_size()` that of one of X or Y.
///
/// `cargo ch1 xw --with homework:1.2` sets your numbers beside those that the decoder's operation reports.
pub fn product_cost(product: &Product) -> Cost {
    todo!("exercise 1.2: cargo homework hint 1.2")
}

/// Exercise 1.4: from how many rows on does arithmetic take longer than reading and writing?
///
/// The more rows (tokens of a prompt, users decoding side by side), the more FLOP per byte. Return the number of rows, with its fraction,
/// that have as many as `roof.ridge()`, which is `roof.peak / roof.bandwidth`. If no number of rows is enough, return `None`. The rows of
/// `product` itself do not matter.
///
/// `cargo ch1 xw --with homework:1.4` ends with your number for this machine, and for an H100.
pub fn rows_at_ridge(product: &Product, roof: &Roofline) -> Option<f64> {
    todo!("exercise 1.4: cargo homework hint 1.4")
}

/// Exercise 1.5: how many bytes does a KV cache hold with room for `batch` sequences of `context` tokens?
///
/// `config` has the model's `layers`, `heads`, `kv_heads`, `head_dim` and `hidden`; an element of the cache is a `dtype`, of
/// `dtype.size_in_bytes()` bytes. Every layer keeps every token.
///
/// `cargo ch1 kv --with homework:1.5` predicts with your function, and counts the bytes of a cache beside it.
pub fn cache_bytes(config: &Config, context: usize, batch: usize, dtype: DType) -> Result<u64> {
    todo!("exercise 1.5: cargo homework hint 1.5")
}

/// Exercise 1.9: how many devices train a model in `days` days?
///
/// Each does `rate` FLOP per second, all day; dividing the work costs nothing. `training.parameters` is how many parameters a token passes
/// through, `training.tokens` how many tokens there are. Return a whole number, 1 at least.
///
/// `cargo ch1 throughput --with homework:1.9` has your number in the column "for a month".
pub fn devices_for(training: &Training, days: f64, rate: f64) -> f64 {
    todo!("exercise 1.9: cargo homework hint 1.9")
}
