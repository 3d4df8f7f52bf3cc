//! Context parallelism: the tokens of a long prompt over ranks, for everything but attention without a word between them.
//!
//! Norms, projections and feed-forward network see one token at a time, so a rank computes its own tokens with the whole model. Only
//! attention needs the keys of others: they go around a [`ring`], while each rank attends to what it has. [`zigzag`] says which tokens a
//! rank gets, so that all have equally much to do. Token by token, after the prompt, there is nothing to cut but the cache: [`decode`].

pub mod cache;
pub mod decode;
pub mod ring;
pub mod zigzag;

use crate::core::Core;
use collective::Communicator;
use decoder::split::Split;
use decoder::{Error, Result, Tokens};
use ring::RingAttention;
use std::ops::Range;
use std::sync::Arc;

/// One rank of those that share the tokens of some sequences.
///
/// Each sequence is two rows on a rank, one per chunk: to the decoder they are sequences that begin in the middle.
#[derive(Clone)]
pub struct ContextParallel {
    core: Core,
    group: Arc<dyn Communicator>,
    lengths: Arc<[usize]>,
}

impl ContextParallel {
    /// Sequences of `lengths` tokens over the ranks of `group`.
    ///
    /// # Errors
    /// A sequence has fewer tokens than there are chunks, two per rank.
    pub fn new(core: Core, group: &Arc<dyn Communicator>, lengths: &[usize]) -> Result<Self> {
        let chunks = 2 * group.size();
        match lengths.iter().find(|&&length| length < chunks) {
            None => Ok(Self { core, group: group.clone(), lengths: lengths.into() }),
            Some(length) => Err(Error::Setting {
                name: "--cp",
                found: group.size().to_string(),
                expected: format!(
                    "a sequence of {length} tokens cannot be cut into {chunks} chunks, two per rank; fewer ranks, or a longer text"
                ),
            }),
        }
    }

    /// The positions of sequence `row` that rank `rank` holds, in two chunks.
    pub fn chunks(&self, row: usize, rank: usize) -> [Range<usize>; 2] {
        (self.core.chunks_of_rank)(self.lengths[row], self.group.size(), rank)
    }

    /// The positions of all local rows: sequence by sequence, its two chunks.
    pub fn local(&self) -> Vec<(usize, Range<usize>)> {
        let rank = self.group.rank();
        (0..self.lengths.len()).flat_map(|row| self.chunks(row, rank).map(|range| (row, range))).collect()
    }

    /// This rank's tokens of `rows`, which have the lengths given.
    ///
    /// # Errors
    /// The device has no room.
    pub fn tokens(&self, rows: &[Vec<u32>], device: &candle_core::Device) -> Result<Tokens> {
        let local = self.local();
        let own: Vec<&[u32]> = local.iter().map(|(row, range)| &rows[*row][range.clone()]).collect();
        Tokens::new(&own, local.iter().map(|(_, range)| range.start).collect(), device)
    }

    /// What belongs to this rank's tokens, one value per token, `padding` where a row is shorter than the longest.
    pub fn own<T: Copy>(&self, rows: &[Vec<T>], padding: T) -> Vec<T> {
        let local = self.local();
        let longest = local.iter().map(|(_, range)| range.len()).max().unwrap_or(0);
        let own = |(row, range): &(usize, Range<usize>)| {
            let padding = std::iter::repeat_n(padding, longest - range.len());
            rows[*row][range.clone()].iter().copied().chain(padding).collect::<Vec<_>>()
        };
        local.iter().flat_map(own).collect()
    }

    /// The rank and local row of the last token of sequence `row`.
    pub fn last(&self, row: usize) -> (usize, usize) {
        let holds = |rank: &usize| {
            self.chunks(row, *rank).iter().any(|range| range.end == self.lengths[row] && !range.is_empty())
        };
        let rank = (0..self.group.size()).find(holds).unwrap_or(0);
        let chunk = usize::from(self.chunks(row, rank)[1].end == self.lengths[row]);
        (rank, 2 * row + chunk)
    }

    /// Tokens of a local row of rank `rank`, padding included.
    pub fn seq(&self, rank: usize) -> usize {
        let chunks = (0..self.lengths.len()).flat_map(|row| self.chunks(row, rank));
        chunks.map(|range| range.len()).max().unwrap_or(0)
    }

    /// `split` with attention around the ring.
    #[must_use]
    pub fn split(&self, split: Split) -> Split {
        let chunks = (0..self.group.size())
            .map(|rank| (0..self.lengths.len()).map(|row| self.chunks(row, rank)).collect())
            .collect();
        Split { attend: Arc::new(RingAttention { group: self.group.clone(), chunks }), ..split }
    }
}

impl std::fmt::Debug for ContextParallel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextParallel").field("rank", &self.group.rank()).field("lengths", &self.lengths).finish()
    }
}
