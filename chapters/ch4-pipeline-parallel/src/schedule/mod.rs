//! A pipeline schedule as data: for each stage, what it does in which order.
//!
//! Nothing here computes or sends. A [`Schedule`] is a list of [`Action`]s per stage; which messages follow from it is in its
//! [`Layout`]: a forward passes its result to the next chunk of the model, a backward its gradient to the one before. The same value
//! is checked ([`Schedule::check`]), timed ([`simulate`](crate::simulate)) and run on tensors ([`engine`](crate::engine)).
//!
//! Read [`Action`], then [`generators`] from `naive` to `zb_h2`: each is a few lines.

mod action;
mod check;
pub mod generators;
mod json;
mod kind;
mod layout;
mod walk;

pub use action::{Action, Work};
pub use check::Peaks;
pub use kind::Kind;
pub use layout::Layout;
pub(crate) use walk::walk;

/// What every stage does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Which chunk of the model comes after which.
    pub layout: Layout,
    /// Micro-batches that a batch is cut into.
    pub micro_batches: usize,
    /// Per stage: its actions, in order.
    pub stages: Vec<Vec<Action>>,
}

impl Schedule {
    /// Chunks of the model in the order of the forward: stages times chunks per stage.
    pub fn positions(&self) -> usize {
        self.layout.positions(self.stages.len())
    }

    /// Actions of all stages.
    pub fn len(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
