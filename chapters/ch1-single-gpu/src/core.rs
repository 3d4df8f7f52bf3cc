//! The functions of this chapter that its exercises are about, as a value: a program makes it once, from `--with`, and passes it down.
//!
//! The reference is the chapter's own code; there is no second copy of it.

use crate::exercises::{CACHE_BYTES, exercises};
use candle_core::DType;
use decoder::{Config, Result};
use lab::exercises::Choice;
use lab::flags::WithFlags;

/// `(config, context, batch, dtype)` → bytes of a KV cache with room for `batch` sequences of `context` tokens.
pub type CacheBytes = fn(&Config, usize, usize, DType) -> Result<u64>;

/// The implementations that a program runs on.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Exercise 1.5, [`crate::kv::cache_bytes`].
    pub cache_bytes: CacheBytes,
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
        Self { cache_bytes: CACHE_BYTES.choose(choice) }
    }
}
