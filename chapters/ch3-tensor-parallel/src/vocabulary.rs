//! Embedding, logits and loss where each rank holds some entries of the vocabulary.
//!
//! - **Embedding**: a rank looks up the ids that it holds and puts zeros for the others; the sum over the ranks is the embedding.
//! - **Logits**: a rank computes those of its entries. Generation gathers them, for the few rows that are sampled from.
//! - **Loss**: three numbers per token are reduced (largest logit, sum of exponentials, the target's logit). The logits of a training step,
//!   its largest tensor, are never gathered.

use crate::boundary::crossed;
use crate::core::{Core, gather, scatter};
use crate::error::in_decoder;
use crate::layout::Layout;
use candle_core::{D, DType, Tensor};
use collective::{Communicator, ReduceOp, autograd};
use decoder::ops::{self, LossSum, Reduction, VocabularyPart};
use decoder::split::Vocabulary;
use decoder::{Context, Error, Parameter, Result};
use std::sync::Arc;

/// The vocabulary in parts.
pub(crate) struct TensorVocabulary {
    pub(crate) core: Core,
    pub(crate) layout: Arc<Layout>,
    pub(crate) group: Arc<dyn Communicator>,
    /// Whether hidden states are slices of the sequence.
    pub(crate) sequence_parallel: bool,
}

impl TensorVocabulary {
    /// Id of the first entry here.
    fn first(&self) -> usize {
        self.layout.vocab(self.group.rank()).start
    }

    /// Hidden states before the head, as before any column-parallel product.
    fn entered(&self, x: &Tensor) -> Result<Tensor> {
        let enter = if self.sequence_parallel { gather } else { self.core.conjugates.f };
        enter(&self.group, x).map_err(in_decoder)
    }

    /// No part could tell an id that is in none of them.
    fn check(&self, ids: &Tensor) -> Result<()> {
        let vocab = self.layout.config().vocab;
        match ids.flatten_all()?.to_vec1::<u32>()?.into_iter().find(|&id| id as usize >= vocab) {
            None => Ok(()),
            Some(id) => Err(Error::Setting {
                name: "token id",
                found: id.to_string(),
                expected: format!("ids below the model's vocabulary of {vocab}"),
            }),
        }
    }
}

impl Vocabulary for TensorVocabulary {
    fn embed(&self, ctx: &Context, ids: &Tensor, weight: &Parameter, dtype: DType) -> Result<Tensor> {
        self.check(ids)?;
        let summand = ops::embedding_of_part(ctx, ids, weight, self.first(), dtype)?;
        let leave = if self.sequence_parallel { scatter } else { self.core.conjugates.g };
        crossed(leave, &self.group, &summand)
    }

    fn logits(&self, ctx: &Context, x: &Tensor, weight: &Parameter) -> Result<Tensor> {
        let own = ops::linear(ctx, &self.entered(x)?, weight)?;
        let (last, here) = (own.rank() - 1, self.layout.vocab(self.group.rank()));
        let gather = move |group: &dyn Communicator, x: &Tensor| group.all_gather(x, last);
        // The gathered logits are used alike on every rank, so the gradient of the own ones is there already.
        let back = move |_: &dyn Communicator, dy: &Tensor| Ok(dy.narrow(D::Minus1, here.start, here.len())?);
        autograd::with_backward(&self.group, &own, gather, back).map_err(in_decoder)
    }

    fn loss(&self, ctx: &Context, x: &Tensor, weight: &Parameter, targets: &[u32]) -> Result<LossSum> {
        let x = self.entered(x)?;
        let reduce = |numbers: &Tensor, reduction| {
            let op = match reduction {
                Reduction::Max => ReduceOp::Max,
                Reduction::Sum => ReduceOp::Sum,
            };
            self.group.all_reduce(numbers, op).map_err(in_decoder)
        };
        let part = VocabularyPart { first: self.first(), vocab: self.layout.config().vocab, reduce: &reduce };
        ops::head_cross_entropy_of_part(ctx, &x, weight, targets, &part)
    }
}
