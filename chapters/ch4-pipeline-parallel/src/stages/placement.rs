//! The decoder's split point for layers.

use decoder::split::Placement;
use decoder::weights::{Part, WeightSpec};
use std::ops::Range;

/// Whole weights of some layers, and the ends of the model if they are here.
#[derive(Debug)]
pub(super) struct StagePlacement {
    pub(super) layers: Vec<Range<usize>>,
    pub(super) embedding: bool,
    pub(super) head: bool,
}

impl Placement for StagePlacement {
    fn part(&self, _: &WeightSpec) -> Part {
        Part::Whole
    }

    fn layers(&self, _: usize) -> Vec<Range<usize>> {
        self.layers.clone()
    }

    fn embedding(&self) -> bool {
        self.embedding
    }

    fn head(&self) -> bool {
        self.head
    }
}
