//! The weights that a model has: their names in a Hugging Face checkpoint, their shapes, their order.
//!
//! One place knows them: the loader, the decoder, the splits and the predictors all ask [`Config::weight`],
//! [`Config::has`] or [`Config::weights`].

use crate::config::{Config, QkNorm};
use crate::weights::{Role, WeightSpec};

/// The weights of one layer, in the order of its computation.
const LAYER: [Role; 18] = [
    Role::AttentionNorm,
    Role::Query,
    Role::QueryBias,
    Role::Key,
    Role::KeyBias,
    Role::Value,
    Role::ValueBias,
    Role::QueryNorm,
    Role::KeyNorm,
    Role::Output,
    Role::OutputBias,
    Role::FeedForwardNorm,
    Role::Gate,
    Role::GateBias,
    Role::Up,
    Role::UpBias,
    Role::Down,
    Role::DownBias,
];

/// Name outside the layers, or inside its layer.
enum Place {
    Model(&'static str),
    Layer(&'static str),
}

fn place(role: Role) -> Place {
    match role {
        Role::Embedding => Place::Model("model.embed_tokens.weight"),
        Role::FinalNorm => Place::Model("model.norm.weight"),
        Role::Head => Place::Model("lm_head.weight"),
        Role::AttentionNorm => Place::Layer("input_layernorm.weight"),
        Role::Query => Place::Layer("self_attn.q_proj.weight"),
        Role::Key => Place::Layer("self_attn.k_proj.weight"),
        Role::Value => Place::Layer("self_attn.v_proj.weight"),
        Role::QueryBias => Place::Layer("self_attn.q_proj.bias"),
        Role::KeyBias => Place::Layer("self_attn.k_proj.bias"),
        Role::ValueBias => Place::Layer("self_attn.v_proj.bias"),
        Role::QueryNorm => Place::Layer("self_attn.q_norm.weight"),
        Role::KeyNorm => Place::Layer("self_attn.k_norm.weight"),
        Role::Output => Place::Layer("self_attn.o_proj.weight"),
        Role::OutputBias => Place::Layer("self_attn.o_proj.bias"),
        Role::FeedForwardNorm => Place::Layer("post_attention_layernorm.weight"),
        Role::Gate => Place::Layer("mlp.gate_proj.weight"),
        Role::Up => Place::Layer("mlp.up_proj.weight"),
        Role::Down => Place::Layer("mlp.down_proj.weight"),
        Role::GateBias => Place::Layer("mlp.gate_proj.bias"),
        Role::UpBias => Place::Layer("mlp.up_proj.bias"),
        Role::DownBias => Place::Layer("mlp.down_proj.bias"),
    }
}

impl Config {
    /// The weight for `role` in `layer` (counted over the whole model; without meaning for the embedding, the final norm
    /// and the head). Whether the model has one is [`Config::has`]'s to say.
    pub fn weight(&self, role: Role, layer: usize) -> WeightSpec {
        let (name, layer) = match place(role) {
            Place::Model(name) => (name.into(), None),
            Place::Layer(name) => (format!("model.layers.{layer}.{name}").into(), Some(layer)),
        };
        WeightSpec { name, shape: self.weight_shape(role), role, layer }
    }

    /// Whether the model has weights for `role`: biases, norms on q and k, and the head are not in every model.
    pub fn has(&self, role: Role) -> bool {
        match role {
            Role::QueryBias | Role::KeyBias | Role::ValueBias => self.qkv_bias,
            Role::OutputBias => self.output_bias,
            Role::GateBias | Role::UpBias | Role::DownBias => self.ffn_bias,
            Role::QueryNorm | Role::KeyNorm => self.qk_norm == QkNorm::PerHead,
            Role::Head => !self.tied,
            _ => true,
        }
    }

    /// Full shape of the weight for `role`, the same in every layer: `[out, in]` for projections.
    pub fn weight_shape(&self, role: Role) -> Vec<usize> {
        match role {
            Role::Embedding | Role::Head => vec![self.vocab, self.hidden],
            Role::Query => vec![self.query_width(), self.hidden],
            Role::Key | Role::Value => vec![self.kv_width(), self.hidden],
            Role::Output => vec![self.hidden, self.query_width()],
            Role::Gate | Role::Up => vec![self.ffn, self.hidden],
            Role::Down => vec![self.hidden, self.ffn],
            Role::QueryBias => vec![self.query_width()],
            Role::KeyBias | Role::ValueBias => vec![self.kv_width()],
            Role::QueryNorm | Role::KeyNorm => vec![self.head_dim],
            Role::GateBias | Role::UpBias => vec![self.ffn],
            Role::AttentionNorm | Role::FeedForwardNorm | Role::FinalNorm => vec![self.hidden],
            Role::OutputBias | Role::DownBias => vec![self.hidden],
        }
    }

    /// All weights in checkpoint order: the embedding, each layer's, the final norm, the head unless it is tied.
    pub fn weights(&self) -> Vec<WeightSpec> {
        let mut weights = vec![self.weight(Role::Embedding, 0)];
        weights.extend((0..self.layers).flat_map(|layer| self.layer_weights(layer)));
        weights.push(self.weight(Role::FinalNorm, 0));
        if self.has(Role::Head) {
            weights.push(self.weight(Role::Head, 0));
        }
        weights
    }

    /// The weights of one layer, in the order of its computation.
    pub fn layer_weights(&self, layer: usize) -> Vec<WeightSpec> {
        LAYER.into_iter().filter(|&role| self.has(role)).map(|role| self.weight(role, layer)).collect()
    }

    /// How many numbers the model is made of; a tied head counts once.
    pub fn parameters(&self) -> u64 {
        // At most 2^48 in a validated config.
        u64::try_from(self.exact_parameters()).unwrap_or(u64::MAX)
    }

    /// [`Config::parameters`], of sizes that are not known to be sane.
    pub(crate) fn exact_parameters(&self) -> u128 {
        let elements = |role: Role| -> u128 {
            if !self.has(role) {
                return 0;
            }
            self.weight_shape(role).into_iter().map(|size| size as u128).product()
        };
        let layer: u128 = LAYER.into_iter().map(elements).sum();
        layer * self.layers as u128
            + [Role::Embedding, Role::FinalNorm, Role::Head].into_iter().map(elements).sum::<u128>()
    }
}
