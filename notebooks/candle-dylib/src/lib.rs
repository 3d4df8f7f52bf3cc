//! candle and plotters as one shared library, for notebooks.
//!
//! evcxr compiles each cell of a notebook into a shared object and links it by itself: whatever is linked statically is there once
//! per cell, its statics too. candle numbers its tensors with a static counter. With a counter per cell, tensors of two cells get one number, and
//! a backward loses their gradients without a word. `decoder` with the feature `notebook` links this library, so that all cells share one candle;
//! `lab::notebook::begin` checks it.

pub use candle_core;
pub use candle_nn;
pub use plotters;
