//! X · W = Y by itself: the product that almost all of a decoder's arithmetic is.
//!
//! X `[rows, in]` is data (one row per token), W `[in, out]` is a parameter, stored `[out, in]` as checkpoints do. [`product_cost`] says what
//! a [`Product`] costs before anything is computed, [`Matrix::measure`] what it did cost. With one row (a decode step) each element of W is read for
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
            let size = if name == "W" { product.weight_size() } else { product.activation_size() };
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

    /// Columns of X, rows of W.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// Columns of W and of Y.
    pub fn outputs(&self) -> u64 {
        self.outputs
    }

    /// Bytes of an element of W.
    pub fn weight_size(&self) -> u64 {
        self.weights.size_in_bytes() as u64
    }

    /// Bytes of an element of X and of Y.
    pub fn activation_size(&self) -> u64 {
        self.activations.size_in_bytes() as u64
    }

    /// The same with another number of rows.
    ///
    /// # Errors
    /// As [`Product::new`].
    pub fn with_rows(&self, rows: u64) -> Result<Self, Error> {
        Self::new(rows, self.inputs, self.outputs, self.weights)
    }
}

/// What a product costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Cost {
    /// FLOP per byte.
    pub fn intensity(&self) -> f64 {
        self.flops as f64 / self.bytes as f64
    }
}

/// 2 · rows · in · out FLOP: a multiply and an add for each element of W and each row. X and W are read once, Y is written once.
pub fn product_cost(product: &Product) -> Cost {
    // Each operand has at most 2³² bytes, so none of these products comes near 2⁶⁴.
    let Product { rows, inputs, outputs, .. } = *product;
    let weight = inputs * outputs * product.weight_size();
    let activations = rows * (inputs + outputs) * product.activation_size();
    Cost { flops: 2 * rows * inputs * outputs, bytes: weight + activations }
}

/// From how many rows on arithmetic takes longer than reading, on `roof`: the intensity of that many rows is the ridge. `None` if no number
/// of rows is enough, because X and Y grow with them. The rows of `product` itself do not matter.
pub fn rows_at_ridge(product: &Product, roof: &Roofline) -> Option<f64> {
    let Product { inputs, outputs, .. } = *product;
    let weight = (inputs * outputs * product.weight_size()) as f64;
    let bytes_per_row = ((inputs + outputs) * product.activation_size()) as f64;
    let gained_per_row = 2.0 * inputs as f64 * outputs as f64 - roof.ridge() * bytes_per_row;
    (gained_per_row > 0.0).then(|| roof.ridge() * weight / gained_per_row)
}

/// Computes the product once, on zeros, and returns what the operation reports.
///
/// # Errors
/// There is no room.
pub fn counted_cost(product: &Product) -> anyhow::Result<Cost> {
    let size = |size: u64| usize::try_from(size).context("a size of a matrix");
    let (rows, inputs, outputs) = (size(product.rows)?, size(product.inputs)?, size(product.outputs)?);
    let x = Tensor::zeros((rows, inputs), product.activations, &Device::Cpu)?;
    let weight = Parameter::new("W", Tensor::zeros((outputs, inputs), product.weights, &Device::Cpu)?);
    let counts = Arc::new(Counts::default());
    ops::linear(&Context::inference().with_observer(counts.clone()), &x, &weight)?;
    Ok(Cost { flops: counts.flops(), bytes: counts.bytes() })
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
    /// Its sizes.
    pub product: Product,
    /// What the operation reported.
    pub counted: Cost,
    /// How long it took.
    pub timing: Timing,
}

impl Measured {
    /// FLOP per second of the fastest run: the roof is the fastest of its kind, too.
    pub fn rate(&self) -> f64 {
        self.counted.flops as f64 / self.timing.fastest
    }
}

impl Matrix {
    /// W `[inputs, outputs]`, 256 MiB of it if it is not tiny.
    ///
    /// # Errors
    /// As [`Product::new`], or no room.
    pub fn new(inputs: u64, outputs: u64, dtype: DType) -> anyhow::Result<Self> {
        let _kind = ledger::scope(Kind::Weights);
        let bytes = inputs * outputs * Product::new(1, inputs, outputs, dtype)?.weight_size();
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
        let counted = Cost { flops: counts.flops() / calls, bytes: counts.bytes() / calls };
        Ok(Measured { product, counted, timing })
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
            assert_eq!(measured.counted.flops, 2 * rows * inputs * outputs, "{sizes}");
            assert_eq!(measured.counted, product_cost(&measured.product), "{sizes}");
        }
    }

    #[test]
    fn the_rows_at_the_ridge_have_the_ridges_intensity() {
        let roof = Roofline { peak: 1e11, bandwidth: 1e10 };
        let product = Product::new(1, 4096, 1024, DType::F32).unwrap();
        let rows = rows_at_ridge(&product, &roof).unwrap();
        let at = |rows: f64| product_cost(&product.with_rows(rows as u64).unwrap()).intensity();
        assert!(at(rows.floor()) <= roof.ridge() && roof.ridge() <= at(rows.ceil()), "{rows} rows");
        // A matrix of 8 × 8 never has 10 FLOP per byte: 128 FLOP and 64 bytes per row.
        assert_eq!(rows_at_ridge(&Product::new(1, 8, 8, DType::F32).unwrap(), &roof), None);
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
