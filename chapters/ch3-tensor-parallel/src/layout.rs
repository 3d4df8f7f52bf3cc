//! Which part of each weight a rank holds, decided from the config before anything is read.
//!
//! In a checkpoint a projection's weight is `[out, in]`. **Column-parallel** (q, k, v, gate, up): a rank holds some outputs, dimension 0,
//! and its result is complete. **Row-parallel** (o, down): it holds some inputs, dimension 1, exactly those that it computed before, and
//! its result is a summand. In this order one reduction is needed, after the second product; the other way round the inputs of both would
//! have to be exchanged (Shoeybi et al., *Megatron-LM*, 2019, section 3).

use collective::chunk;
use decoder::Config;
use decoder::weights::{Part, Role, WeightSpec};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A model over `tp` ranks: the sizes fit together.
#[derive(Clone, Debug)]
pub struct Layout {
    config: Config,
    tp: usize,
    weights: BTreeMap<Arc<str>, WeightSpec>,
}

/// How the ranks hold a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Each rank a part of its own along a dimension.
    Cut {
        /// The dimension.
        dim: usize,
    },
    /// More ranks than kv heads: groups of [`Layout::replicas`] neighbouring ranks hold the same kv head's part.
    Grouped {
        /// The dimension.
        dim: usize,
    },
    /// Every rank all of it.
    Replicated,
}

impl Layout {
    /// `config` over `tp` ranks.
    ///
    /// # Errors
    /// A size that `tp` does not divide; the error lists the legal numbers of ranks.
    pub fn new(config: &Config, tp: usize) -> lab::Result<Self> {
        if let Some(problem) = problem(config, tp) {
            let legal: Vec<_> = Self::legal(config).iter().map(ToString::to_string).collect();
            let expected = format!("{problem}; for this model {} can be used", legal.join(", "));
            return Err(lab::Error::Flag { flag: "--tp", found: tp.to_string(), expected });
        }
        let weights = config.weights().into_iter().map(|weight| (weight.name.clone(), weight)).collect();
        Ok(Self { config: config.clone(), tp, weights })
    }

    /// All numbers of ranks over which `config` can be spread.
    pub fn legal(config: &Config) -> Vec<usize> {
        (1..=config.heads).filter(|&tp| problem(config, tp).is_none()).collect()
    }

    /// The whole model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Ranks.
    pub fn tp(&self) -> usize {
        self.tp
    }

    /// Query heads of a rank.
    pub fn heads(&self) -> usize {
        self.config.heads / self.tp
    }

    /// Key heads of a rank: its share, or the one that it shares with others.
    pub fn kv_heads(&self) -> usize {
        (self.config.kv_heads / self.tp).max(1)
    }

    /// Ranks that hold the same key head: 1 unless there are more ranks than key heads.
    pub fn replicas(&self) -> usize {
        (self.tp / self.config.kv_heads).max(1)
    }

    /// Width of the feed-forward network on a rank.
    pub fn ffn(&self) -> usize {
        self.config.ffn / self.tp
    }

    /// Entries of the vocabulary on a rank: base + remainder, so any vocabulary can be cut.
    pub fn vocab(&self, rank: usize) -> Range<usize> {
        chunk(self.config.vocab, self.tp, rank)
    }

    /// The whole weight of this name.
    pub fn weight(&self, name: &str) -> Option<&WeightSpec> {
        self.weights.get(name)
    }

    /// All weights, in the order of names.
    pub fn weights(&self) -> impl Iterator<Item = &WeightSpec> {
        self.weights.values()
    }

    /// How the ranks hold weights for `role`.
    pub fn held(&self, role: Role) -> Held {
        match role {
            Role::Query | Role::QueryBias | Role::Gate | Role::Up | Role::GateBias | Role::UpBias => {
                Held::Cut { dim: 0 }
            }
            Role::Key | Role::Value | Role::KeyBias | Role::ValueBias if self.replicas() > 1 => {
                Held::Grouped { dim: 0 }
            }
            Role::Key | Role::Value | Role::KeyBias | Role::ValueBias => Held::Cut { dim: 0 },
            Role::Embedding | Role::Head => Held::Cut { dim: 0 },
            Role::Output | Role::Down => Held::Cut { dim: 1 },
            // Norms act on a whole hidden state or head, and the biases behind a row-parallel product are added after its reduction.
            _ => Held::Replicated,
        }
    }

    /// The sizes of what a rank holds, as if it were a model: its heads, its width, its entries of the vocabulary.
    pub fn of_rank(&self, rank: usize) -> Config {
        let mut config = self.config.clone();
        (config.heads, config.kv_heads) = (self.heads(), self.kv_heads());
        (config.ffn, config.vocab) = (self.ffn(), self.vocab(rank).len());
        config
    }

    /// Elements of `weight` on a rank.
    pub fn elements(&self, weight: &WeightSpec, rank: usize) -> usize {
        part_of_rank(self, weight, rank).shape(&weight.shape).iter().product()
    }
}

/// The part of `weight` that `rank` holds: consecutive heads, columns, or entries of the vocabulary.
pub fn part_of_rank(layout: &Layout, weight: &WeightSpec, rank: usize) -> Part {
    let (dim, range) = match layout.held(weight.role) {
        Held::Replicated => return Part::Whole,
        Held::Cut { dim } => (dim, chunk(weight.shape[dim], layout.tp, rank)),
        Held::Grouped { dim } => (dim, chunk(weight.shape[dim], layout.config.kv_heads, rank / layout.replicas())),
    };
    Part::Ranges { dim, ranges: vec![range] }
}

/// Why `config` cannot be spread over `tp` ranks.
fn problem(config: &Config, tp: usize) -> Option<String> {
    let Config { heads, kv_heads, ffn, vocab, .. } = *config;
    if tp == 0 {
        return Some("at least 1 rank is needed".to_owned());
    }
    if tp > heads {
        return Some(format!("there are only {heads} attention heads, and each rank computes at least one"));
    }
    if !heads.is_multiple_of(tp) {
        return Some(format!("it does not divide the {heads} attention heads"));
    }
    if !kv_heads.is_multiple_of(tp) && !tp.is_multiple_of(kv_heads) {
        return Some(format!("it neither divides the {kv_heads} key heads nor is a multiple of them"));
    }
    if !ffn.is_multiple_of(tp) {
        return Some(format!("it does not divide the feed-forward width of {ffn}"));
    }
    (tp > vocab).then(|| format!("the vocabulary has only {vocab} entries"))
}
