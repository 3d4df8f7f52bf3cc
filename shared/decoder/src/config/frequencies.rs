//! From rotary settings to frequencies.
//!
//! Dimension pair i of a head is turned by the angle `position · inverse[i]`. All arithmetic is in f64.

use super::{Rope, RopeScaling};
use std::f64::consts::TAU;

/// What the rotary embedding turns with.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// Radians per position, after scaling: `[head_dim / 2]`.
    pub inverse: Vec<f64>,
    /// Factor on cos and sin; 1 except for YaRN.
    pub factor: f64,
}

impl Rope {
    /// The frequencies for heads of width `head_dim`.
    ///
    /// Unscaled, pair i has `theta^(-2i / head_dim)` (Su et al., RoFormer, section 3.2.2); the scaled forms follow the
    /// `transformers` library.
    pub fn frequencies(&self, head_dim: usize) -> Frequencies {
        let unscaled: Vec<f64> =
            (0..head_dim / 2).map(|pair| self.theta.powf(-((2 * pair) as f64) / head_dim as f64)).collect();
        let mut factor = 1.0;
        let inverse = match &self.scaling {
            RopeScaling::None => unscaled,
            RopeScaling::Linear { factor: divisor } => {
                unscaled.into_iter().map(|frequency| frequency / divisor).collect()
            }
            &RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                let scale = |frequency| {
                    let rotations = original_context as f64 * frequency / TAU;
                    llama3(frequency, rotations, factor, low_freq_factor, high_freq_factor)
                };
                unscaled.into_iter().map(scale).collect()
            }
            &RopeScaling::Yarn {
                factor: divisor,
                beta_fast,
                beta_slow,
                attention_factor,
                original_context,
                truncate,
            } => {
                factor = attention_factor;
                let turns_once = original_context as f64 / TAU;
                let bounds = [beta_fast, beta_slow].map(|rotations| {
                    // The (fractional) pair that turns `rotations` times within the original context.
                    head_dim as f64 * (turns_once / rotations).ln() / (2.0 * self.theta.ln())
                });
                let ramp = yarn_ramp(bounds, truncate, head_dim);
                let blend = |(frequency, share): (f64, f64)| frequency / divisor * share + frequency * (1.0 - share);
                unscaled.into_iter().zip(ramp).map(blend).collect()
            }
            RopeScaling::Divisors { divisors } => {
                unscaled.into_iter().zip(divisors).map(|(frequency, divisor)| frequency / divisor).collect()
            }
        };
        Frequencies { inverse, factor }
    }
}

/// One frequency under Llama 3's scaling; `rotations`: how often it turns within the original context.
fn llama3(frequency: f64, rotations: f64, factor: f64, low: f64, high: f64) -> f64 {
    if rotations < low {
        frequency / factor
    } else if rotations > high {
        frequency
    } else {
        let kept = (rotations - low) / (high - low);
        (1.0 - kept) * frequency / factor + kept * frequency
    }
}

/// Per dimension pair, the share of interpolation: 0 keeps the frequency, 1 divides it, with a straight line between
/// the bounds (Peng et al., YaRN, section 3.2).
fn yarn_ramp([low, high]: [f64; 2], truncate: bool, head_dim: usize) -> Vec<f64> {
    let (low, high) = if truncate { (low.floor(), high.ceil()) } else { (low, high) };
    // The upper bound is `head_dim − 1`, not the number of pairs: the published models were made with it.
    let (low, mut high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
    if low == high {
        high += 0.001;
    }
    (0..head_dim / 2).map(|pair| ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0)).collect()
}
