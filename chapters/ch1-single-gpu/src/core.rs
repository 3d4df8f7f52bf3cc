//! The functions of this chapter that its exercises are about, as a value: a program makes it once, from `--with`, and passes it down.
//!
//! The reference is the chapter's own code; there is no second copy of it.

use crate::exercises::{CACHE_BYTES, DEVICES_FOR, PRODUCT_COST, ROWS_AT_RIDGE, exercises};
use crate::throughput::Training;
use crate::xw::{Cost, Product};
use candle_core::DType;
use decoder::{Config, Result};
use lab::exercises::Choice;
use lab::flags::WithFlags;
use lab::roofline::Roofline;

/// A product → its FLOPs and bytes.
pub type ProductCost = fn(&Product) -> Cost;

/// `(product, roof)` → the rows from which on arithmetic takes longer than reading.
pub type RowsAtRidge = fn(&Product, &Roofline) -> Option<f64>;

/// `(config, context, batch, dtype)` → bytes of a KV cache with room for `batch` sequences of `context` tokens.
pub type CacheBytes = fn(&Config, usize, usize, DType) -> Result<u64>;

/// `(training, days, rate)` → devices of `rate` FLOP per second that it takes to be done in `days` days.
pub type DevicesFor = fn(&Training, f64, f64) -> f64;

/// The implementations that a program runs on.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Exercise 1.2, [`crate::xw::product_cost`].
    pub product_cost: ProductCost,
    /// Exercise 1.4, [`crate::xw::rows_at_ridge`].
    pub rows_at_ridge: RowsAtRidge,
    /// Exercise 1.5, [`crate::kv::cache_bytes`].
    pub cache_bytes: CacheBytes,
    /// Exercise 1.9, [`crate::throughput::devices_for`].
    pub devices_for: DevicesFor,
}

impl Core {
    /// What `--with` names.
    ///
    /// # Errors
    /// This chapter has no such exercise or bug.
    pub fn choose(with: &WithFlags) -> lab::Result<Self> {
        Ok(Self::of(&with.choice(&exercises())?))
    }

    /// What `choice` names: for a chapter that builds on this one.
    pub fn of(choice: &Choice) -> Self {
        Self {
            product_cost: PRODUCT_COST.choose(choice),
            rows_at_ridge: ROWS_AT_RIDGE.choose(choice),
            cache_bytes: CACHE_BYTES.choose(choice),
            devices_for: DEVICES_FOR.choose(choice),
        }
    }
}

impl Default for Core {
    /// The reference.
    fn default() -> Self {
        Self::of(&Choice::default())
    }
}
