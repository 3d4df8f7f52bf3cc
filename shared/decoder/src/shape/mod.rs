//! The exact sizes of a model from its shape alone: parameters, bytes, FLOPs. Nothing is allocated.
//!
//! A [`ModelShape`] comes from a [`Config`](crate::Config), from the published models in `assets/models.toml`
//! ([`published`]), or from TOML text. Every prediction is one short method with its formula in the doc comment:
//!
//! | question | method | file |
//! |---|---|---|
//! | how many parameters, total and active? | [`ModelShape::parameters`], [`ModelShape::active_parameters`] | `parameters.rs` |
//! | how many bytes of weights and of KV cache? | [`ModelShape::weight_bytes`], [`ModelShape::kv_bytes`] | `memory.rs` |
//! | how many FLOPs? | [`ModelShape::prefill_flops`], [`ModelShape::decode_step_flops`], [`ModelShape::training_step_flops`] | `flops.rs` |
//! | which operations, one by one? | [`ModelShape::layer_operations`] | `operations.rs` |
//! | what does training hold? | [`ModelShape::layer_activation_bytes`], [`StateBytes`] | `training.rs` |
//! | how many devices at least? | [`ModelShape::inference_footprint`], [`Footprint::devices_needed`] | `footprint.rs` |
//!
//! Read `model.rs` first (what a shape is), then `projection.rs`: the list of a layer's matrices, from which parameters,
//! FLOPs and operations all follow. Results are integers and exact; one that does not fit is an error, never a wrapped
//! number (`count.rs`).

mod config;
mod count;
mod flops;
mod footprint;
pub mod hardware;
mod lookup;
mod memory;
mod model;
mod operations;
mod parameters;
mod projection;
mod published;
mod training;

pub use flops::{Flops, Logits, Pairs, six_n_flops};
pub use footprint::{Footprint, Training};
pub use hardware::Hardware;
pub use model::{Attention, FeedForward, Layers, Matrices, Mlp, ModelShape, Norm, QkNorm, SharedExperts, Size};
pub use operations::OperationCount;
pub use parameters::{Parameters, padded_vocab};
pub use published::{PublishedModel, PublishedTraining, published, published_models};
pub use training::{Activations, Recompute, StateBytes};
