//! What a data-parallel run must send, from the parameters' sizes alone.
//!
//! Predicted with `collective::volume`, and compared with what each rank's traffic counted: they must be equal.

use candle_core::DType;
use collective::volume::{self, Place};
use collective::{Algorithm, Sent, Traffic};
use training::Named;

/// Calls and bytes of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Collective operations.
    pub calls: u64,
    /// Bytes of their operands.
    pub payload: u64,
    /// Bytes that the rank sends to other ranks.
    pub sent: Sent,
}

impl std::ops::Add for Volume {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, payload: self.payload + other.payload, sent: self.sent + other.sent }
    }
}

impl std::iter::Sum for Volume {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |total, one| total + one)
    }
}

impl Volume {
    /// What was counted.
    pub fn counted(traffic: &Traffic) -> Self {
        let payload = traffic.entries().iter().map(|entry| entry.payload).sum();
        Self { calls: traffic.calls(), payload, sent: traffic.sent() }
    }

    /// `times` times as much.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        let sent = Sent { within: self.sent.within * times, between: self.sent.between * times };
        Self { calls: self.calls * times, payload: self.payload * times, sent }
    }
}

/// One all-reduce of `elements` elements of `width` bytes.
pub fn all_reduce(algorithm: Algorithm, place: &Place, elements: usize, width: usize) -> Volume {
    let sent = volume::all_reduce(algorithm, place, elements, width);
    Volume { calls: 1, payload: (elements * width) as u64, sent }
}

/// One all-gather; rank r has `elements[r]` elements of `width` bytes.
pub fn all_gather(algorithm: Algorithm, place: &Place, elements: &[usize], width: usize) -> Volume {
    let own = elements.get(place.rank()).copied().unwrap_or(0);
    let sent = volume::all_gather(algorithm, place, elements, width);
    Volume { calls: 1, payload: (own * width) as u64, sent }
}

/// Synchronising once: the loss (two f64), and every gradient in its type.
pub fn synchronisation(algorithm: Algorithm, place: &Place, gradients: &[(usize, usize)]) -> Volume {
    let gradients = gradients.iter().map(|&(elements, width)| all_reduce(algorithm, place, elements, width));
    gradients.sum::<Volume>() + all_reduce(algorithm, place, 2, size_of::<f64>())
}

/// Agreeing whether to go on: one u32.
pub fn agreement(algorithm: Algorithm, place: &Place) -> Volume {
    all_reduce(algorithm, place, 1, size_of::<u32>())
}

/// Comparing replicas once: a checksum (i64) per parameter.
pub fn check(algorithm: Algorithm, place: &Place, parameters: usize) -> Volume {
    all_gather(algorithm, place, &vec![parameters; place.size()], size_of::<i64>())
}

/// Elements and bytes per element of each gradient.
pub fn gradient_sizes(gradients: &Named) -> Vec<(usize, usize)> {
    gradients.values().map(|gradient| (gradient.elem_count(), gradient.dtype().size_in_bytes())).collect()
}

/// The same, of a model's parameters before there are gradients: these have the type of the activations.
pub fn parameter_sizes(parameters: &Named, activations: DType) -> Vec<(usize, usize)> {
    parameters.values().map(|parameter| (parameter.elem_count(), activations.size_in_bytes())).collect()
}
