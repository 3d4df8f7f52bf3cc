//! Which layers are on which stage.
//!
//! The model is a row: embedding, layers, head. It is cut into chunks of consecutive layers, as many as the schedule's
//! [`Layout`] has positions, so that the most expensive chunk is as cheap as possible ([`Stages::balanced`]), or as the user says
//! ([`Stages::by_hand`]). A stage then loads its chunks and nothing else: [`Stages::split`] is the decoder's placement.

mod balance;
mod costs;
mod placement;

pub use balance::balanced_cuts;
pub use costs::LayerCosts;

use crate::schedule::Layout;
use crate::{Error, Result};
use decoder::Config;
use decoder::split::Split;
use placement::StagePlacement;
use std::ops::Range;
use std::sync::Arc;

/// A model cut into the chunks of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    layout: Layout,
    stages: usize,
    /// Layers of each position.
    chunks: Vec<Range<usize>>,
}

impl Stages {
    /// Chunks whose costs are as equal as whole layers allow, those of embedding and head counted where they are.
    ///
    /// # Errors
    /// There are fewer layers than chunks.
    pub fn balanced(layout: Layout, stages: usize, costs: &LayerCosts) -> Result<Self> {
        Self::cut_by(balanced_cuts, layout, stages, costs)
    }

    /// Chunks as `cuts` makes them.
    ///
    /// # Errors
    /// There are fewer layers than chunks, or the chunks are not a cut of all layers.
    pub fn cut_by(
        cuts: fn(&LayerCosts, usize) -> Vec<Range<usize>>,
        layout: Layout,
        stages: usize,
        costs: &LayerCosts,
    ) -> Result<Self> {
        let this = Self { layout, stages, chunks: Vec::new() };
        let (layers, positions) = (costs.layers.len(), layout.positions(stages));
        if positions == 0 {
            return this.wrong(layers, "at least 1 stage of 1 chunk".to_owned());
        }
        if positions > layers {
            let most = (layers / layout.chunks().min(positions)).max(1);
            let chunks = if layout.chunks() > 1 && layout != Layout::Bidirectional {
                format!(" of {} chunks", layout.chunks())
            } else {
                String::new()
            };
            return this.wrong(
                layers,
                format!("{positions} chunks need a layer each: at most {most} stages{chunks}, or another schedule"),
            );
        }
        let chunks = cuts(costs, positions);
        let ends = chunks.iter().map(|chunk| chunk.end);
        let follow = chunks.iter().map(|chunk| chunk.start).eq(std::iter::once(0).chain(ends).take(positions));
        if !follow || chunks.len() != positions || chunks.last().map(|last| last.end) != Some(layers) {
            return this.wrong(layers, format!("{chunks:?} is not a cut: every layer belongs to one chunk"));
        }
        Ok(Self { chunks, ..this })
    }

    /// `counts[k]` layers at position k of the model.
    ///
    /// # Errors
    /// Not one number per chunk, not all layers dealt out, or a chunk with nothing in it.
    pub fn by_hand(layout: Layout, stages: usize, layers: usize, counts: &[usize]) -> Result<Self> {
        let this = Self { layout, stages, chunks: Vec::new() };
        let positions = layout.positions(stages);
        if counts.len() != positions {
            return this.wrong(layers, format!("{} numbers of layers; one per chunk, {positions}", counts.len()));
        }
        let total: Option<usize> = counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
        if total != Some(layers) {
            let total = total.map_or("too many".to_owned(), |total| total.to_string());
            return this.wrong(layers, format!("the numbers of layers add up to {total}"));
        }
        let ends = [0, positions.saturating_sub(1)];
        if let Some(empty) = (0..positions).find(|position| counts[*position] == 0 && !ends.contains(position)) {
            return this.wrong(
                layers,
                format!(
                    "chunk {empty} holds nothing; only the first, with the embedding, and the last, with the head, may"
                ),
            );
        }
        let mut first = 0;
        let chunks = counts.iter().map(|count| {
            first += count;
            first - count..first
        });
        Ok(Self { chunks: chunks.collect(), ..this })
    }

    fn wrong<T>(&self, layers: usize, problem: String) -> Result<T> {
        Err(Error::Stages { layers, stages: self.stages, chunks: self.layout.chunks(), problem })
    }

    /// How the chunks lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Stages.
    pub fn len(&self) -> usize {
        self.stages
    }

    /// Whether there is none: never.
    pub fn is_empty(&self) -> bool {
        self.stages == 0
    }

    /// Layers of each position, in the order of the forward.
    pub fn chunks(&self) -> &[Range<usize>] {
        &self.chunks
    }

    /// Position in the model of a stage's chunk.
    pub fn position(&self, stage: usize, chunk: usize) -> usize {
        self.layout.position(self.stages, stage, chunk)
    }

    /// Layers of each of a stage's chunks.
    pub fn of_stage(&self, stage: usize) -> Vec<Range<usize>> {
        (0..self.layout.chunks()).map(|chunk| self.chunks[self.position(stage, chunk)].clone()).collect()
    }

    /// A stage's chunk as the numbers of its layers in the stage's model, which holds its chunks one after the other.
    pub fn local_layers(&self, stage: usize, chunk: usize) -> Range<usize> {
        let before: usize = self.of_stage(stage)[..chunk].iter().map(ExactSizeIterator::len).sum();
        before..before + self.chunks[self.position(stage, chunk)].len()
    }

    /// The stage that token ids enter at.
    pub fn first(&self) -> usize {
        self.layout.at(self.stages, 0, 0).0
    }

    /// The stage with the head: the only one with a loss.
    pub fn last(&self) -> usize {
        self.layout.at(self.stages, self.chunks.len() - 1, 0).0
    }

    /// What stage `stage` loads.
    pub fn split(&self, stage: usize) -> Split {
        let placement = StagePlacement {
            layers: self.of_stage(stage),
            embedding: stage == self.first(),
            head: stage == self.last(),
        };
        Split { placement: Arc::new(placement), ..Split::whole() }
    }

    /// Parameters that stage `stage` holds; a tied embedding counts where it is used.
    pub fn parameters(&self, config: &Config, stage: usize) -> u64 {
        let layers = self.of_stage(stage).into_iter().flatten();
        let layers: u64 = layers.flat_map(|layer| config.layer_weights(layer)).map(|weight| weight.elements()).sum();
        let whole: u64 = config.parameters();
        let in_layers: u64 =
            (0..config.layers).flat_map(|layer| config.layer_weights(layer)).map(|weight| weight.elements()).sum();
        let embedding = (config.vocab * config.hidden) as u64;
        let head = if config.tied { embedding } else { whole - in_layers - embedding - config.hidden as u64 };
        let (first, last) = (stage == self.first(), stage == self.last());
        let ends = match (first, last) {
            (true, true) => whole - in_layers,
            (true, false) => embedding,
            (false, true) => head + config.hidden as u64,
            (false, false) => 0,
        };
        layers + ends
    }
}
