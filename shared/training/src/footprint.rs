//! What one training step holds, predicted by walking through it as [`forward_backward`](crate::segments::forward_backward)
//! does: the forward keeps, the backward frees and leaves gradients behind.

use candle_core::{DType, Device};
use decoder::Config;
use decoder::model::Footprint;
use decoder::weights::Role;

/// Bytes per kind, each at its own peak, and all together at theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainingPeak {
    /// Parameters.
    pub weights: u64,
    /// Gradients.
    pub gradients: u64,
    /// Moments and master weights.
    pub optimiser: u64,
    /// Activations.
    pub activations: u64,
    /// Most of all held at once: less than the sum, because gradients come as activations go.
    pub device: u64,
    /// Most of all held at once while two matrices are multiplied, which is when the matrix library holds most scratch memory.
    pub in_products: u64,
}

impl TrainingPeak {
    /// Most of all held at once with the matrix library's scratch memory: `resident` bytes at any time, `scratch` bytes within a product.
    pub fn with_scratch(&self, resident: u64, scratch: u64) -> u64 {
        (self.device + resident).max(self.in_products + scratch)
    }
}

/// The peak of training `config` on (micro-)batches of `rows · seq` tokens, one of them per step, with an optimiser that holds
/// `optimiser` bytes per parameter.
pub fn training_peak(config: &Config, rows: usize, seq: usize, dtype: DType, optimiser: u64) -> TrainingPeak {
    let footprint = Footprint::new(config, rows, seq, dtype, &Device::Cpu);
    let weights = footprint.weights();
    let optimiser = config.parameters() * optimiser;
    let gradient = |elements: u64| elements * if dtype == DType::F64 { 8 } else { 4 };
    let elements = |role: Role| config.weight(role, 0).elements();
    let layer: u64 = config.layer_weights(0).iter().map(|weight| weight.elements()).sum();
    let embedding = elements(Role::Embedding);

    let mut walk = Walk { base: weights + optimiser, ..Walk::default() };
    // Forward: everything is kept.
    walk.keep(footprint.rotation() + footprint.hidden());
    for _ in 0..config.layers {
        walk.keep(footprint.kept_by_layer());
    }
    walk.keep(footprint.kept_by_head());
    // Backward, last segment first. A segment's kept tensors go when it is done; its input's gradient remains.
    walk.transient(footprint.backward_of_head());
    walk.gradients += gradient(embedding + elements(Role::FinalNorm));
    // The weight gradient: gradient of the input, scaled input. Then the norm's: two inputs' gradients and what is added to them.
    walk.product(2 * footprint.hidden());
    walk.transient(3 * footprint.hidden());
    walk.free(footprint.kept_by_head());
    for _ in 0..config.layers {
        // The projection back of the feed-forward network comes first, and leaves its gradient.
        walk.gradients += gradient(elements(Role::Down));
        walk.product(footprint.backward_of_layer_in_products());
        walk.transient(footprint.backward_of_layer());
        walk.gradients += gradient(layer - elements(Role::Down));
        // The last weight gradients, of queries, keys and values.
        walk.product(2 * footprint.hidden());
        walk.free(footprint.kept_by_layer());
    }
    walk.gradients += gradient(if config.tied { 0 } else { embedding });
    walk.transient(footprint.hidden());
    TrainingPeak {
        weights,
        optimiser,
        gradients: walk.most_gradients,
        activations: walk.most_activations,
        device: walk.most,
        in_products: walk.most_in_products,
    }
}

#[derive(Default)]
struct Walk {
    base: u64,
    activations: u64,
    gradients: u64,
    most: u64,
    most_in_products: u64,
    most_activations: u64,
    most_gradients: u64,
}

impl Walk {
    fn keep(&mut self, bytes: u64) {
        self.activations += bytes;
        self.transient(0);
    }

    fn free(&mut self, bytes: u64) {
        self.activations -= bytes;
    }

    /// Activations that come and go around a product.
    fn product(&mut self, bytes: u64) {
        self.transient(bytes);
        self.most_in_products = self.most_in_products.max(self.base + self.activations + bytes + self.gradients);
    }

    /// Activations that come and go.
    fn transient(&mut self, bytes: u64) {
        self.most_activations = self.most_activations.max(self.activations + bytes);
        self.most_gradients = self.most_gradients.max(self.gradients);
        self.most = self.most.max(self.base + self.activations + bytes + self.gradients);
    }
}
