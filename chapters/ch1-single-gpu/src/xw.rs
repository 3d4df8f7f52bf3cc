//! X · W = Y by itself: the product that almost all of a decoder's arithmetic is.
//!
//! X `[rows, in]` is data (one row per token), W `[in, out]` is a parameter, stored `[out, in]` as checkpoints do. [`Product`] says what it
//! costs before anything is computed, [`Matrix::measure`] what it did cost. With one row (a decode step) each element of W is read for
//! one multiply-add: a matrix-vector product, GEMV. With many rows (a prompt, a batch) it is read once for all of them: GEMM.

use anyhow::Context as _;
use candle_core::{DType, Device, Tensor};
use decoder::{Context, Error, Parameter, ops};
use lab::roofline::Roofline;
use lab::timing::Timing;
use ledger::{Bytes, Counts, Kind};
use std::sync::Arc;
use std::time::Duration;

/// Largest operand, so that a mistyped size is an error and not a machine out of memory.
const LARGEST: u64 = 4 << 30;
/// Copies of W together have at least this many bytes: more than a cache holds. In a model, too, W is not in the cache: all other
/// weights were read since it was used last.
const COLD: u64 = 256 << 20;
/// But there are no more of them than this: a W of less than 64 KiB stays in the cache, as it does in a model of such matrices.
const MOST_COPIES: u64 = 4096;

/// Sizes of one product, all at least 1, every number derived from them in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    rows: u64,
    inputs: u64,
    outputs: u64,
    weights: DType,
    activations: DType,
}

impl Product {
    /// X `[rows, inputs]` times W `[inputs, outputs]` in `weights`; X and Y in f32, for weights in f64 in f64: what the decoder does on a
    /// CPU.
    ///
    /// # Errors
    /// A size of 0, or an operand of more than 4 GiB.
    pub fn new(rows: u64, inputs: u64, outputs: u64, weights: DType) -> Result<Self, Error> {
        for (name, size) in [("--rows", rows), ("--in", inputs), ("--out", outputs)] {
            if size == 0 {
                return Err(Error::Setting { name, found: "0".into(), expected: "a whole number from 1 up".into() });
            }
        }
        let activations = if weights == DType::F64 { DType::F64 } else { DType::F32 };
        let product = Self { rows, inputs, outputs, weights, activations };
        let operands = [("X", rows, inputs), ("W", inputs, outputs), ("Y", rows, outputs)];
        for (name, height, width) in operands {
            let size = if name == "W" { weights.size_in_bytes() as u64 } else { product.activation_bytes() };
            let bytes = height.checked_mul(width).and_then(|elements| elements.checked_mul(size));
            if bytes.is_none_or(|bytes| bytes > LARGEST) {
                return Err(Error::Setting {
                    name,
                    found: format!("{height} x {width} elements of {size} bytes"),
                    expected: format!("at most {} per matrix; take smaller --rows, --in or --out", Bytes(LARGEST)),
                });
            }
        }
        Ok(product)
    }

    /// The same with X and Y in the type of W: what a GPU does.
    #[must_use]
    pub fn in_one_type(self) -> Self {
        Self { activations: self.weights, ..self }
    }

    /// Rows of X and of Y.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// 2 · rows · in · out: a multiply and an add for each element of W and each row.
    pub fn flops(&self) -> u64 {
        // Each operand has at most 2³² bytes, so none of these products comes near 2⁶⁴.
        2 * self.rows * self.inputs * self.outputs
    }

    /// Bytes of W.
    pub fn weight_bytes(&self) -> u64 {
        self.inputs * self.outputs * self.weights.size_in_bytes() as u64
    }

    /// X and W read once, Y written once.
    pub fn bytes(&self) -> u64 {
        self.weight_bytes() + self.rows * (self.inputs + self.outputs) * self.activation_bytes()
    }

    /// FLOP per byte.
    pub fn intensity(&self) -> f64 {
        self.flops() as f64 / self.bytes() as f64
    }

    /// From how many rows on arithmetic takes longer than reading, on `roof`: the intensity of that many rows is the ridge. `None` if no
    /// number of rows is enough, because X and Y grow with them.
    pub fn rows_at_ridge(&self, roof: &Roofline) -> Option<f64> {
        let per_row = 2.0 * self.inputs as f64 * self.outputs as f64;
        let bytes_per_row = (self.inputs + self.outputs) as f64 * self.activation_bytes() as f64;
        let gained = per_row - roof.ridge() * bytes_per_row;
        (gained > 0.0).then(|| roof.ridge() * self.weight_bytes() as f64 / gained)
    }

    /// Bytes of an element of X and Y.
    fn activation_bytes(&self) -> u64 {
        self.activations.size_in_bytes() as u64
    }
}

/// W, as many times as it takes to leave the cache.
#[derive(Debug)]
pub struct Matrix {
    copies: Vec<Parameter>,
    inputs: u64,
    outputs: u64,
    dtype: DType,
}

/// A product that was computed.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// What was predicted.
    pub product: Product,
    /// FLOPs that the observer heard of.
    pub counted_flops: u64,
    /// Bytes that the observer heard of.
    pub counted_bytes: u64,
    /// How long it took.
    pub timing: Timing,
}

impl Measured {
    /// FLOP per second of the fastest run: the roof is the fastest of its kind, too.
    pub fn rate(&self) -> f64 {
        self.product.flops() as f64 / self.timing.fastest
    }
}

impl Matrix {
    /// W `[inputs, outputs]`, 256 MiB of it if it is not tiny.
    ///
    /// # Errors
    /// As [`Product::new`], or no room.
    pub fn new(inputs: u64, outputs: u64, dtype: DType) -> anyhow::Result<Self> {
        let _kind = ledger::scope(Kind::Weights);
        let bytes = Product::new(1, inputs, outputs, dtype)?.weight_bytes();
        let copies = usize::try_from(COLD.div_ceil(bytes).min(MOST_COPIES))?;
        let shape = (copies, usize::try_from(outputs)?, usize::try_from(inputs)?);
        let block = Tensor::full(0.5f32, 1, &Device::Cpu)?.to_dtype(dtype)?;
        let block = block.broadcast_as(shape)?.contiguous().context("making W")?;
        let copies =
            (0..copies).map(|copy| Ok(Parameter::new("W", block.get(copy)?))).collect::<anyhow::Result<_>>()?;
        Ok(Self { copies, inputs, outputs, dtype })
    }

    /// Computes the product with `rows` rows for about `budget`, each time with another copy of W.
    ///
    /// # Errors
    /// As [`Product::new`], or no room.
    pub fn measure(&self, rows: u64, budget: Duration) -> anyhow::Result<Measured> {
        let product = Product::new(rows, self.inputs, self.outputs, self.dtype)?;
        let _kind = ledger::scope(Kind::Activations);
        let x =
            Tensor::ones((usize::try_from(rows)?, usize::try_from(self.inputs)?), product.activations, &Device::Cpu)?;
        let counts = Arc::new(Counts::default());
        let ctx = Context::inference().with_observer(counts.clone());
        let mut copies = self.copies.iter().cycle();
        let mut calls = 0;
        let timing = Timing::of(budget, || {
            let weight = copies.next().context("there is no W")?;
            calls += 1;
            ops::linear(&ctx, &x, weight).map(|y| drop(std::hint::black_box(y))).context("computing X · W")
        })?;
        // Every call was counted; all are equal.
        let (counted_flops, counted_bytes) = (counts.flops() / calls, counts.bytes() / calls);
        Ok(Measured { product, counted_flops, counted_bytes, timing })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn counted_flops_and_bytes_are_the_predicted_ones_for_any_sizes_and_type() {
        for (rows, inputs, outputs, dtype) in [
            (1, 1, 1, DType::F32),
            (3, 129, 65, DType::F32),
            (1, 640, 300, DType::BF16),
            (17, 64, 31, DType::F64),
            (512, 33, 7, DType::F32),
        ] {
            let matrix = Matrix::new(inputs, outputs, dtype).unwrap();
            let measured = matrix.measure(rows, Duration::ZERO).unwrap();
            let sizes = format!("{rows} x {inputs} x {outputs} {dtype:?}");
            assert_eq!(measured.counted_flops, 2 * rows * inputs * outputs, "{sizes}");
            assert_eq!(measured.counted_flops, measured.product.flops(), "{sizes}");
            assert_eq!(measured.counted_bytes, measured.product.bytes(), "{sizes}");
        }
    }

    #[test]
    fn the_rows_at_the_ridge_have_the_ridges_intensity() {
        let roof = Roofline { peak: 1e11, bandwidth: 1e10 };
        let product = Product::new(1, 4096, 1024, DType::F32).unwrap();
        let rows = product.rows_at_ridge(&roof).unwrap();
        let at = |rows: f64| Product::new(rows as u64, 4096, 1024, DType::F32).unwrap().intensity();
        assert!(at(rows.floor()) <= roof.ridge() && roof.ridge() <= at(rows.ceil()), "{rows} rows");
        // A matrix of 8 × 8 never has 10 FLOP per byte: 128 FLOP and 64 bytes per row.
        assert_eq!(Product::new(1, 8, 8, DType::F32).unwrap().rows_at_ridge(&roof), None);
    }

    #[test]
    fn sizes_without_meaning_are_refused_by_the_flag_s_name() {
        let refused = |rows, inputs, outputs| Product::new(rows, inputs, outputs, DType::F32).unwrap_err().to_string();
        assert!(refused(0, 1, 1).contains("--rows = 0"));
        assert!(refused(1, 0, 1).contains("--in = 0"));
        assert!(refused(1, 1, 0).contains("--out = 0"));
        assert!(refused(1, 1 << 40, 1).contains("4 GiB"));
        assert!(refused(u64::MAX, u64::MAX, u64::MAX).contains("4 GiB"));
    }
}
