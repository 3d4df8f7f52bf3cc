//! The roofline of a machine: what it can compute per second, and what it can read per second (Williams, Waterman and Patterson,
//! Roofline, 2009).
//!
//! An operation of `flops` FLOPs on `bytes` bytes takes at least `max(flops / peak, bytes / bandwidth)`. Which of the two decides is a
//! property of its *intensity*, FLOPs per byte: left of the ridge the memory does, right of it the arithmetic.
//!
//! [`Roofline::of`] is a published device's, [`Roofline::measure_cpu`] that of this machine's CPU, now.

use crate::timing::Timing;
use crate::{Error, Result};
use candle_core::{DType, Device, Tensor};
use decoder::shape::hardware::{Hardware, Precision};
use ledger::Kind;
use rayon::prelude::*;
use serde::Serialize;
use std::hint::black_box;
use std::time::Duration;

/// Bytes that the bandwidth is measured on: several times the last-level cache of common CPUs.
const READ: usize = 256 << 20;
/// They are read in pieces, each timed: on a machine that others use, too, a short measurement is more often undisturbed.
const PIECE: usize = 16 << 20;
/// Sides of the square matrices that the peak is measured with. Large ones come nearest to the peak on a machine that does nothing else,
/// small ones, done within a millisecond, on one that does.
const SIDES: [usize; 4] = [256, 384, 512, 1024];
/// How long the bandwidth and each of the products is measured.
const BUDGET: Duration = Duration::from_millis(150);

/// What a machine can do at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// FLOP per second of a large matrix product.
    pub peak: f64,
    /// Bytes per second from memory.
    pub bandwidth: f64,
}

/// What decides how long an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Reading and writing memory.
    Memory,
    /// Arithmetic.
    Compute,
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
        })
    }
}

impl Roofline {
    /// That of a published device for operands of type `precision`.
    ///
    /// # Errors
    /// The device has no published peak at `precision`.
    pub fn of(device: &Hardware, precision: Precision) -> Result<Self> {
        Ok(Self { peak: device.peak(precision)? as f64, bandwidth: device.bandwidth.get() as f64 })
    }

    /// Measures this machine's CPU with the threads of the current rayon pool, in about a second: the fastest of some products of
    /// square matrices in f32, and the fastest reading of 16 MiB that no cache holds.
    ///
    /// # Errors
    /// There is no room for the 256 MiB.
    pub fn measure_cpu() -> Result<Self> {
        let _kind = ledger::scope(Kind::Workspace);
        Ok(Self { peak: measure_peak()?, bandwidth: measure_bandwidth()? })
    }

    /// The higher of each: a roof that was measured twice is at least as high as the better measurement.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { peak: self.peak.max(other.peak), bandwidth: self.bandwidth.max(other.bandwidth) }
    }

    /// FLOP per byte from which on arithmetic decides: peak / bandwidth.
    pub fn ridge(&self) -> f64 {
        self.peak / self.bandwidth
    }

    /// FLOP per second at most, of an operation with `intensity` FLOP per byte: min(peak, intensity · bandwidth).
    pub fn attainable(&self, intensity: f64) -> f64 {
        self.peak.min(intensity * self.bandwidth)
    }

    /// Seconds at least: max(flops / peak, bytes / bandwidth).
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.peak).max(bytes / self.bandwidth)
    }

    /// What decides, at `intensity` FLOP per byte.
    pub fn bound(&self, intensity: f64) -> Bound {
        if intensity < self.ridge() { Bound::Memory } else { Bound::Compute }
    }
}

fn measure_peak() -> Result<f64> {
    let rate = |side: usize| {
        let matrix = || Tensor::full(0.5f32, (side, side), &Device::Cpu);
        let (a, b) = (matrix()?, matrix()?);
        let timing = Timing::of(BUDGET, || a.matmul(&b).map(|product| drop(black_box(product))))?;
        Ok(2.0 * (side as f64).powi(3) / timing.fastest)
    };
    SIDES.into_iter().try_fold(0.0, |best: f64, side| rate(side).map(|rate| best.max(rate))).map_err(failed)
}

/// A sum over a buffer that no cache holds, each thread its own part.
fn measure_bandwidth() -> Result<f64> {
    let mut buffer: Vec<f32> = Vec::new();
    let count = READ / DType::F32.size_in_bytes();
    buffer.try_reserve_exact(count).map_err(|error| Error::Device {
        device: "cpu".to_owned(),
        problem: format!("no room for the {READ} bytes that the bandwidth is measured on: {error}"),
    })?;
    // Written, not only reserved: pages that were never written are all the same page of zeros.
    buffer.resize(count, 1.0);
    let piece = PIECE / DType::F32.size_in_bytes();
    let share = piece.div_ceil(rayon::current_num_threads());
    let mut pieces = buffer.chunks_exact(piece).cycle();
    let Ok::<_, std::convert::Infallible>(timing) = Timing::of(BUDGET, || {
        if let Some(piece) = pieces.next() {
            black_box(piece.par_chunks(share).map(sum).sum::<f32>());
        }
        Ok(())
    });
    Ok(PIECE as f64 / timing.fastest)
}

/// Enough independent sums that the additions do not wait for each other, few enough to stay in registers.
fn sum(values: &[f32]) -> f32 {
    const LANES: usize = 32;
    let mut sums = [0f32; LANES];
    for chunk in values.chunks_exact(LANES) {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    sums.iter().sum()
}

fn failed(error: candle_core::Error) -> Error {
    Error::Device { device: "cpu".to_owned(), problem: format!("the roofline cannot be measured: {error}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_roof_is_flat_right_of_the_ridge_and_falls_left_of_it() {
        let roof = Roofline { peak: 1e12, bandwidth: 1e10 };
        assert_eq!(roof.ridge(), 100.0);
        assert_eq!(roof.attainable(1.0), 1e10);
        assert_eq!(roof.attainable(100.0), 1e12);
        assert_eq!(roof.attainable(1e6), 1e12);
        assert_eq!((roof.bound(99.0), roof.bound(101.0)), (Bound::Memory, Bound::Compute));
        for intensity in [0.25, 50.0, 100.0, 4000.0] {
            let bytes = 1e9;
            let seconds = roof.seconds(intensity * bytes, bytes);
            let attained = intensity * bytes / seconds;
            assert!((attained / roof.attainable(intensity) - 1.0).abs() < 1e-12, "intensity {intensity}");
        }
    }

    #[test]
    fn a_published_ridge_is_peak_over_bandwidth() {
        let h100 = Hardware::named("H100").unwrap();
        let roof = Roofline::of(&h100, Precision::Bf16).unwrap();
        assert_eq!(roof.ridge(), h100.ridge(Precision::Bf16).unwrap());
        let message = Roofline::of(&Hardware::named("V100").unwrap(), Precision::Bf16).unwrap_err().to_string();
        assert!(message.contains("f16"), "what there is is listed: {message}");
    }

    #[test]
    fn the_measured_roof_of_any_machine_is_within_reason() {
        let roof = Roofline::measure_cpu().unwrap();
        assert!((1e8..1e15).contains(&roof.peak), "{roof:?}");
        assert!((1e8..1e14).contains(&roof.bandwidth), "{roof:?}");
    }
}
