//! Seeded random weights, for models of any size without a download.
//!
//! A value is a function of (seed, weight name, index of the element in the whole weight), so a rank can generate only its
//! part, and every layout starts from the same model. The generator is counter-based: SplitMix64's finalizer (Steele et al.,
//! Fast Splittable Pseudorandom Number Generators) of key + counter, then Box–Muller.

use super::cut::Cut;
use super::element::{self, Element, Elements};
use super::{Part, Role, WeightSpec, Weights};
use crate::error::Result;
use candle_core::{DType, Device, Tensor};
use std::f64::consts::TAU;

/// A source that has every weight: matrices are normal, norms are ones, biases are zeros.
///
/// The values do not depend on the type they are held in, except by rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Random {
    /// Chooses the model.
    pub seed: u64,
    /// Standard deviation of the matrices; 0.02 is what most models were initialised with.
    pub std: f64,
}

impl Random {
    /// The usual standard deviation.
    pub fn new(seed: u64) -> Self {
        Self { seed, std: 0.02 }
    }
}

impl Weights for Random {
    fn origin(&self) -> String {
        format!("random weights, seed {}", self.seed)
    }

    fn contains(&self, _name: &str) -> bool {
        true
    }

    fn check(&self, specs: &[WeightSpec]) -> Result<()> {
        specs.iter().try_for_each(|spec| Cut::new(&self.origin(), spec, &Part::Whole).map(drop))
    }

    fn read(&self, spec: &WeightSpec, part: &Part, dtype: DType, device: &Device) -> Result<Tensor> {
        let cut = Cut::new(&self.origin(), spec, part)?;
        let values = Values { fill: fill(spec.role), key: key(self.seed, &spec.name), std: self.std, cut };
        element::tensor(&values, part.shape(&spec.shape), dtype, device)
    }
}

/// What a weight starts as.
#[derive(Clone, Copy)]
enum Fill {
    Ones,
    Zeros,
    Normal,
}

fn fill(role: Role) -> Fill {
    match role {
        Role::AttentionNorm | Role::QueryNorm | Role::KeyNorm | Role::FeedForwardNorm | Role::FinalNorm => Fill::Ones,
        Role::QueryBias | Role::KeyBias | Role::ValueBias | Role::OutputBias => Fill::Zeros,
        Role::GateBias | Role::UpBias | Role::DownBias => Fill::Zeros,
        Role::Embedding | Role::Query | Role::Key | Role::Value | Role::Output => Fill::Normal,
        Role::Gate | Role::Up | Role::Down | Role::Head => Fill::Normal,
    }
}

/// A part of one random weight.
struct Values {
    fill: Fill,
    key: u64,
    std: f64,
    cut: Cut,
}

impl Elements for Values {
    fn append_to<T: Element>(&self, values: &mut Vec<T>) -> Result<()> {
        for run in self.cut.runs() {
            match self.fill {
                Fill::Ones => values.extend(run.map(|_| T::from_single(1.0))),
                Fill::Zeros => values.extend(run.map(|_| T::from_single(0.0))),
                Fill::Normal => {
                    let mut pair = (usize::MAX, [0.0; 2]);
                    values.extend(run.map(|index| {
                        if pair.0 != index / 2 {
                            pair = (index / 2, normal_pair(self.key, index as u64 / 2));
                        }
                        // Through f32, so that all types start from the same model.
                        T::from_single((pair.1[index % 2] * self.std) as f32)
                    }));
                }
            }
        }
        Ok(())
    }
}

/// SplitMix64's finalizer: every bit of the result depends on every bit of `value`.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The stream of one weight under one seed; the name is hashed with FNV-1a.
fn key(seed: u64, name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ hash)
}

/// Two independent standard normal numbers: Box–Muller of the two halves of one hash.
fn normal_pair(key: u64, counter: u64) -> [f64; 2] {
    let bits = mix(key.wrapping_add((counter + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    // In (0, 1], so that the logarithm is finite.
    let uniform = ((bits >> 32) as f64 + 1.0) / 4_294_967_296.0;
    let angle = (bits & 0xffff_ffff) as f64 / 4_294_967_296.0 * TAU;
    let radius = (-2.0 * uniform.ln()).sqrt();
    let (sin, cos) = angle.sin_cos();
    [radius * cos, radius * sin]
}
