//! The matrices of a layer, listed once. Parameters, FLOPs and operations are sums over this list.

use super::count::{Count, count};
use super::model::{Attention, FeedForward, Matrices, Mlp, ModelShape, Norm, QkNorm, Size};

/// One linear projection: a matrix `[outputs, inputs]`, perhaps with a bias, perhaps in several copies (experts).
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection {
    /// Which one, as checkpoints call it.
    pub(super) part: &'static str,
    pub(super) inputs: Count,
    pub(super) outputs: Count,
    pub(super) bias: bool,
    /// Copies that the model has.
    pub(super) held: Count,
    /// Copies that one token passes through.
    pub(super) used: Count,
}

impl Projection {
    fn single(part: &'static str, inputs: Count, outputs: Count, bias: bool) -> Self {
        Self { part, inputs, outputs, bias, held: count(1), used: count(1) }
    }

    /// Entries of one copy's matrix.
    pub(super) fn entries(&self) -> Count {
        self.inputs * self.outputs
    }

    /// Entries of one copy's matrix and bias.
    pub(super) fn parameters(&self) -> Count {
        self.entries() + if self.bias { self.outputs } else { Count::ZERO }
    }
}

impl Attention {
    /// The projections of one layer's attention.
    pub(super) fn projections(&self, hidden: Size) -> Vec<Projection> {
        let single = Projection::single;
        let hidden = count(hidden);
        match *self {
            Self::Grouped { heads, kv_heads, head_dim, qkv_bias, output_bias, .. } => {
                let (queries, keys) = (count(heads) * head_dim, count(kv_heads) * head_dim);
                vec![
                    single("q_proj", hidden, queries, qkv_bias),
                    single("k_proj", hidden, keys, qkv_bias),
                    single("v_proj", hidden, keys, qkv_bias),
                    single("o_proj", queries, hidden, output_bias),
                ]
            }
            Self::Latent { heads, q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim } => {
                let queries = count(heads) * (count(qk_nope_head_dim) + qk_rope_head_dim);
                let mut projections = match q_lora_rank {
                    None => vec![single("q_proj", hidden, queries, false)],
                    Some(rank) => {
                        let rank = count(rank);
                        vec![single("q_a_proj", hidden, rank, false), single("q_b_proj", rank, queries, false)]
                    }
                };
                let keys_and_values = count(heads) * (count(qk_nope_head_dim) + v_head_dim);
                projections.extend([
                    single("kv_a_proj", hidden, count(kv_lora_rank) + qk_rope_head_dim, false),
                    single("kv_b_proj", count(kv_lora_rank), keys_and_values, false),
                    single("o_proj", count(heads) * v_head_dim, hidden, false),
                ]);
                projections
            }
        }
    }

    /// Weights of the norms inside attention: on q and k, or on the two latents.
    pub(super) fn inner_norms(&self) -> Count {
        match *self {
            Self::Grouped { heads, kv_heads, head_dim, qk_norm, .. } => match qk_norm {
                QkNorm::None => Count::ZERO,
                QkNorm::PerHead => 2 * count(head_dim),
                QkNorm::WholeProjection => (count(heads) + kv_heads) * head_dim,
            },
            Self::Latent { q_lora_rank, kv_lora_rank, .. } => q_lora_rank.map_or(Count::ZERO, count) + kv_lora_rank,
        }
    }
}

impl Mlp {
    fn projections(&self, hidden: Size, names: [&'static str; 3], held: Count, used: Count) -> Vec<Projection> {
        let [gate, up, down] = names;
        let (hidden, width) = (count(hidden), count(self.width));
        let mut projections = match self.matrices {
            Matrices::Gated => vec![Projection::single(gate, hidden, width, self.bias)],
            Matrices::Plain => Vec::new(),
        };
        projections.push(Projection::single(up, hidden, width, self.bias));
        projections.push(Projection::single(down, width, hidden, self.bias));
        projections.into_iter().map(|projection| Projection { held, used, ..projection }).collect()
    }
}

impl FeedForward {
    /// The projections of one layer's feed-forward network, routing apart.
    pub(super) fn projections(&self, hidden: Size) -> Vec<Projection> {
        match self {
            Self::Dense(mlp) => mlp.projections(hidden, ["gate_proj", "up_proj", "down_proj"], count(1), count(1)),
            Self::Experts { experts, experts_per_token, expert, shared, .. } => {
                let names = ["experts.gate_proj", "experts.up_proj", "experts.down_proj"];
                let mut projections = expert.projections(hidden, names, count(*experts), count(*experts_per_token));
                if let Some(shared) = shared {
                    let names = ["shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj"];
                    let copies = count(shared.experts);
                    projections.extend(shared.expert.projections(hidden, names, copies, copies));
                }
                projections
            }
        }
    }

    /// The projections that decide where a token goes, and how much the shared experts count.
    pub(super) fn routing(&self, hidden: Size) -> Vec<Projection> {
        let Self::Experts { experts, shared, .. } = self else { return Vec::new() };
        let hidden = count(hidden);
        let mut projections = vec![Projection::single("router", hidden, count(*experts), false)];
        if shared.is_some_and(|shared| shared.gate) {
            projections.push(Projection::single("shared_expert_gate", hidden, count(1), false));
        }
        projections
    }
}

impl Norm {
    /// Weights of one norm over `width` elements.
    pub(super) fn parameters(self, width: Size) -> Count {
        match self {
            Self::Rms => count(width),
            Self::Layer => 2 * count(width),
        }
    }
}

impl ModelShape {
    /// The head: hidden state to logits.
    pub(super) fn head(&self) -> Projection {
        Projection::single("lm_head", count(self.hidden), count(self.vocab), false)
    }
}
