//! What can be said without a simulation: the formulas of the papers.

use super::Uniform;
use crate::schedule::Kind;

/// A step's cost and memory by formula, without communication.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closed {
    /// Seconds in which a stage waits.
    pub bubble_seconds: f64,
    /// The share of a step's cost.
    pub bubble: f64,
}

impl Closed {
    /// The formula of `kind`; `None` where the literature has none for these numbers.
    ///
    /// - naive: (p − 1)·m·T; GPipe, 1F1B: (p − 1)·T, which of all of it is (p − 1)/(m + p − 1) (Huang et al., section 2.3);
    /// - interleaved: (p − 1)·T/v (Narayanan et al., 2021); m a multiple of p;
    /// - ZB-H1: (p − 1)(F + I − W), ZB-H2: (p − 1)(F + I − 2W), where that is not negative and m ≥ 2p − 1 (Qi et al., 2023,
    ///   Table 2);
    /// - DualPipe: (p/2 − 1)(F&B + B − 3W), B = I + W (DeepSeek-V3, Table 2).
    ///
    /// T = F + I + W is the time of one micro-batch on one stage.
    pub fn of(kind: Kind, stages: usize, micro_batches: usize, chunks: usize, times: &Uniform) -> Option<Self> {
        let Uniform { forward, input_gradient, weight_gradient, .. } = *times;
        let (others, total) = ((stages - 1) as f64, times.total());
        let fills = micro_batches >= 2 * stages - 1;
        let bubble_seconds = match kind {
            Kind::Naive => others * micro_batches as f64 * total,
            Kind::Gpipe | Kind::OneForwardOneBackward => others * total,
            Kind::Interleaved => others * total / chunks as f64,
            Kind::ZbH1 if fills => others * (forward + input_gradient - weight_gradient),
            Kind::ZbH2 if fills => others * (forward + input_gradient - 2.0 * weight_gradient),
            Kind::Dualpipe => {
                let backward = input_gradient + weight_gradient;
                let together = times.together.unwrap_or(forward + backward);
                (stages as f64 / 2.0 - 1.0) * (together + backward - 3.0 * weight_gradient)
            }
            Kind::ZbV | Kind::ZbH1 | Kind::ZbH2 => return None,
        };
        if bubble_seconds < 0.0 {
            return None;
        }
        Some(Self { bubble_seconds, bubble: bubble_seconds / (bubble_seconds + micro_batches as f64 * total) })
    }
}

/// The bubble of interleaved 1F1B with a constant send time: cost = m·T + (p − 1)·T/v + (2pv − p − 2)·send. The last term is
/// fitted to Qi et al.'s Table 5, whose twelve rates it gives to four digits; a simulation that keeps the order of each stage strictly
/// pays p sends more.
pub fn interleaved_bubble(stages: usize, micro_batches: usize, chunks: usize, total: f64, send: f64) -> f64 {
    let (p, m, v) = (stages as f64, micro_batches as f64, chunks as f64);
    let cost = m * total + (p - 1.0) / v * total + (2.0 * p * v - p - 2.0) * send;
    1.0 - m * total / cost
}
