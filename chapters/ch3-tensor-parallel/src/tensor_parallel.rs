//! One rank of a tensor-parallel group: its split of the decoder, and what it does with gradients.

use crate::Result;
use crate::boundary::{Inputs, SequenceBoundary, TensorBoundary};
use crate::core::Core;
use crate::layout::Layout;
use crate::vocabulary::TensorVocabulary;
use collective::Communicator;
use decoder::Config;
use decoder::split::{Boundary, Placement, Split, Whole};
use decoder::weights::{Part, WeightSpec};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A rank among those that share every layer.
#[derive(Clone)]
pub struct TensorParallel {
    pub(crate) core: Core,
    pub(crate) layout: Arc<Layout>,
    pub(crate) group: Arc<dyn Communicator>,
    /// The ranks that hold the same key head, where there are several.
    pub(crate) replicas: Option<Arc<dyn Communicator>>,
    pub(crate) sequence: Option<Inputs>,
}

impl TensorParallel {
    /// `config` over the ranks of `group`. Every rank must call it: ranks that hold the same key head become a group.
    ///
    /// # Errors
    /// The group's size does not fit the model ([`Layout::new`]), or another rank failed.
    pub fn new(core: Core, config: &Config, group: &Arc<dyn Communicator>) -> Result<Self> {
        let layout = Arc::new(Layout::new(config, group.size())?);
        let (rank, shared) = (group.rank(), layout.replicas());
        let replicas = if shared > 1 { Some(group.split(rank / shared, rank)?) } else { None };
        Ok(Self { core, layout, group: group.clone(), replicas, sequence: None })
    }

    /// The same with sequence parallelism in training.
    #[must_use]
    pub fn with_sequence_parallelism(self, inputs: Inputs) -> Self {
        Self { sequence: Some(inputs), ..self }
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The ranks that share every layer.
    pub fn group(&self) -> &Arc<dyn Communicator> {
        &self.group
    }

    /// Whether norms and the residual stream see a slice of the sequence in training.
    pub fn is_sequence_parallel(&self) -> bool {
        self.sequence.is_some()
    }

    /// How a rank generates and scores: hidden states are whole between the blocks.
    pub fn split(&self) -> Split {
        self.split_with(None)
    }

    /// How a rank trains: with sequence parallelism, if that was chosen.
    pub fn training_split(&self) -> Split {
        self.split_with(self.sequence)
    }

    fn split_with(&self, sequence: Option<Inputs>) -> Split {
        let (core, group, layout) = (self.core, self.group.clone(), self.layout.clone());
        let boundary: Arc<dyn Boundary> = match sequence {
            None => Arc::new(TensorBoundary { core, group: group.clone() }),
            Some(inputs) => Arc::new(SequenceBoundary { group: group.clone(), inputs, gathered: Mutex::new(None) }),
        };
        Split {
            placement: Arc::new(TensorPlacement { core, layout: layout.clone(), rank: group.rank() }),
            boundary,
            attend: Arc::new(Whole),
            vocabulary: Arc::new(TensorVocabulary { core, layout, group, sequence_parallel: sequence.is_some() }),
        }
    }
}

impl std::fmt::Debug for TensorParallel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, tp) = (self.group.rank(), self.group.size());
        f.debug_struct("TensorParallel")
            .field("rank", &rank)
            .field("tp", &tp)
            .field("sequence", &self.sequence)
            .finish()
    }
}

/// All layers, and of each weight this rank's part.
struct TensorPlacement {
    core: Core,
    layout: Arc<Layout>,
    rank: usize,
}

impl Placement for TensorPlacement {
    fn part(&self, weight: &WeightSpec) -> Part {
        (self.core.part_of_rank)(&self.layout, weight, self.rank)
    }

    fn layers(&self, layers: usize) -> Vec<Range<usize>> {
        Whole.layers(layers)
    }

    fn embedding(&self) -> bool {
        true
    }

    fn head(&self) -> bool {
        true
    }
}
