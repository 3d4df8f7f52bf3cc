//! Seeded random weights, for models of any size without a download.
//!
//! A value is a function of (seed, weight name, index of the element in the whole weight), so a rank can generate only its
//! part, and every layout starts from the same model: see [`random::Elements`].

use super::cut::Cut;
use super::element::{self, Element, Elements};
use super::{Part, Role, WeightSpec, Weights};
use crate::error::Result;
use crate::random;
use candle_core::{DType, Device, Tensor};

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
        let values = Values {
            fill: fill(spec.role),
            elements: random::Elements::new(self.seed, &spec.name),
            std: self.std,
            cut,
        };
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
    elements: random::Elements,
    std: f64,
    cut: Cut,
}

impl Elements for Values {
    fn append_to<T: Element>(&self, values: &mut Vec<T>) -> Result<()> {
        for run in self.cut.runs() {
            match self.fill {
                Fill::Ones => values.extend(run.map(|_| T::from_single(1.0))),
                Fill::Zeros => values.extend(run.map(|_| T::from_single(0.0))),
                // Through f32, so that all types start from the same model.
                Fill::Normal => values.extend(
                    (self.elements.normals(run.start as u64..run.end as u64))
                        .map(|value| T::from_single((value * self.std) as f32)),
                ),
            }
        }
        Ok(())
    }
}
