//! One feed-forward network and one attention block, cut: which rows and columns a rank holds, and the summands before and the result
//! after each reduction.

use crate::core::Core;
use crate::{Error, Layout, Result, TensorParallel};
use candle_core::{DType, Tensor};
use collective::{Options, Rank, launch};
use decoder::split::{Block, Boundary, Partial, Split};
use decoder::weights::{Part, Role};
use decoder::{Context, Tokens};
use lab::loaded::Described;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of a vector that are shown.
pub const SHOWN: usize = 4;

/// What one rank holds of a weight.
#[derive(Clone, Debug)]
pub struct Share {
    /// The weight's name within its layer.
    pub name: String,
    /// Its full shape.
    pub whole: Vec<usize>,
    /// The part's shape.
    pub here: Vec<usize>,
    /// In words: `rows 0..64`, `columns 0..96`, `all`.
    pub part: String,
    /// The dimension that is cut and the ranges that are here; `None` for a whole weight.
    pub cut: Option<(usize, Vec<Range<usize>>)>,
}

/// The weights of layer 0 that belong to `block`, on rank `rank`.
pub fn shares(layout: &Layout, core: &Core, block: Block, rank: usize) -> Vec<Share> {
    let wanted = |role: Role| match block {
        Block::Attention => matches!(role, Role::Query | Role::Key | Role::Value | Role::Output),
        Block::FeedForward => matches!(role, Role::Gate | Role::Up | Role::Down),
    };
    let weights = layout.config().layer_weights(0).into_iter().filter(|weight| wanted(weight.role));
    let share = |weight: decoder::weights::WeightSpec| {
        let part = (core.part_of_rank)(layout, &weight, rank);
        let here = part.shape(&weight.shape);
        let cut = match part {
            Part::Ranges { dim, ranges } => Some((dim, ranges)),
            _ => None,
        };
        let part = cut.as_ref().map_or_else(
            || "all".to_owned(),
            |(dim, ranges)| {
                let ranges: Vec<_> = ranges.iter().map(|range| format!("{range:?}")).collect();
                format!("{} {}", if *dim == 0 { "rows" } else { "columns" }, ranges.join(", "))
            },
        );
        let name = weight.name.trim_start_matches("model.layers.0.").to_owned();
        Share { name, whole: weight.shape, here, part, cut }
    };
    weights.map(share).collect()
}

/// The first numbers of a block's result for one token.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The block.
    pub block: Block,
    /// Of each rank, what it computed: a summand.
    pub summands: Vec<Vec<f64>>,
    /// What every rank has afterwards.
    pub sum: Vec<f64>,
    /// What one device computes there.
    pub single: Vec<f64>,
}

/// Runs the ids through layer 0 on `tp` ranks and on one device; the numbers are of the last token.
///
/// # Errors
/// The layout does not fit, or a rank failed.
pub fn reduce(core: Core, described: &Described, tp: usize, ids: &[u32]) -> Result<Vec<Reduced>> {
    let run = |ranks: usize| {
        launch(ranks, &Options::default(), |rank| layer(core, rank, described, ids)).map_err(Error::from)
    };
    let (ranks, single) = (run(tp)?, run(1)?);
    let of = |index: usize| {
        let (block, _, sum) = &ranks[0][index];
        Reduced {
            block: *block,
            summands: ranks.iter().map(|rank| rank[index].1.clone()).collect(),
            sum: sum.clone(),
            single: single[0][index].2.clone(),
        }
    };
    Ok((0..ranks[0].len()).map(of).collect())
}

type Heard = Vec<(Block, Vec<f64>, Vec<f64>)>;

fn layer(core: Core, rank: &Rank, described: &Described, ids: &[u32]) -> Result<Heard> {
    let tensor = TensorParallel::new(core, &described.config, rank.communicator())?;
    let split = tensor.split();
    let listening = Arc::new(Listening { inner: split.boundary.clone(), heard: Mutex::default() });
    let model = described.load(&split)?;
    let ctx = Context::inference().with_split(Split { boundary: listening.clone(), ..split });
    let tokens = Tokens::from_zero(&[ids], model.device())?;
    let place = model.place(tokens.positions())?;
    let x = model.embed(&ctx, tokens.ids())?;
    model.layer(&ctx, 0, &x, &place, None)?;
    Ok(listening.heard.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

/// A boundary that writes down what crosses it.
struct Listening {
    inner: Arc<dyn Boundary>,
    heard: Mutex<Heard>,
}

impl Boundary for Listening {
    fn enter(&self, ctx: &Context, block: Block, x: Tensor) -> decoder::Result<Tensor> {
        self.inner.enter(ctx, block, x)
    }

    fn leave(&self, ctx: &Context, block: Block, partial: Partial) -> decoder::Result<Tensor> {
        let mut summand = Vec::new();
        let same = partial.reduce(|x| {
            summand = first_numbers(&x)?;
            Ok(x)
        })?;
        let sum = self.inner.leave(ctx, block, Partial::new(same))?;
        let heard = (block, summand, first_numbers(&sum)?);
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
        Ok(sum)
    }
}

/// Of the last token.
fn first_numbers(x: &Tensor) -> decoder::Result<Vec<f64>> {
    let last = x.get(0)?.get(x.dim(1)? - 1)?;
    Ok(last.narrow(0, 0, SHOWN.min(last.dim(0)?))?.to_dtype(DType::F64)?.to_vec1()?)
}
