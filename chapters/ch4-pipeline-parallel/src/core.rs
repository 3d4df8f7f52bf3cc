//! The chapter's own functions as values: what the exercises are about.
//!
//! What the commands run is made with a [`Core`]. `--with homework` puts the learner's functions there, `--with bug:NAME` a typical
//! mistake.

use crate::Result;
use crate::engine::Pipeline;
use crate::exercises::{CUTS, LOSS_SCALE, ONE_FORWARD_ONE_BACKWARD, ZB_H1, exercises};
use crate::schedule::{Action, Kind, Layout, Schedule, generators};
use crate::stages::{LayerCosts, Stages};
use lab::exercises::{Choice, Exercises};
use lab::flags::WithFlags;
use std::ops::Range;

/// `(costs, chunks)` → the layers of each chunk.
pub type Cuts = fn(&LayerCosts, usize) -> Vec<Range<usize>>;

/// `(stage, stages, micro-batches)` → what that stage does, in order.
pub type Order = fn(usize, usize, usize) -> Vec<Action>;

/// `(targets of the micro-batch, targets of the batch, micro-batches)` → what the micro-batch's summed loss is multiplied by.
pub type LossScale = fn(usize, usize, usize) -> f64;

/// The chapter's functions.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Exercise 4.1, [`crate::stages::balanced_cuts`]: which layers are on which stage.
    pub cuts: Cuts,
    /// Exercise 4.3, [`generators::one_forward_one_backward_order`]: the order of 1F1B.
    pub one_forward_one_backward: Order,
    /// Exercise 4.4, [`crate::engine::loss_scale`]: how much a micro-batch's loss counts.
    pub loss_scale: LossScale,
    /// Exercise 4.5, [`generators::zb_h1_order`]: the order of ZB-H1.
    pub zb_h1: Order,
}

impl Core {
    /// What `--with` names.
    ///
    /// # Errors
    /// No chapter up to this one has such an exercise or bug.
    pub fn choose(with: &WithFlags) -> lab::Result<Self> {
        Ok(Self::of(&with.choice(&known())?))
    }

    /// What `choice` names: for a chapter that builds on this one.
    pub fn of(choice: &Choice) -> Self {
        Self {
            cuts: CUTS.choose(choice),
            one_forward_one_backward: ONE_FORWARD_ONE_BACKWARD.choose(choice),
            loss_scale: LOSS_SCALE.choose(choice),
            zb_h1: ZB_H1.choose(choice),
        }
    }

    /// A schedule by name, as [`Kind::schedule`] makes it.
    ///
    /// # Errors
    /// Numbers that it cannot be made for.
    pub fn schedule(&self, kind: Kind, stages: usize, micro_batches: usize, chunks: usize) -> Result<Schedule> {
        let order = match kind {
            Kind::OneForwardOneBackward => self.one_forward_one_backward,
            Kind::ZbH1 => self.zb_h1,
            _ => return kind.schedule(stages, micro_batches, chunks),
        };
        kind.legal(stages, micro_batches, chunks)?;
        let of_stage = |stage| order(stage, stages, micro_batches);
        Ok(generators::of_orders(Layout::Straight, stages, micro_batches, of_stage))
    }

    /// A cut of equal costs, as [`Stages::balanced`] makes it.
    ///
    /// # Errors
    /// There are fewer layers than chunks, or not every layer is in one.
    pub fn stages(&self, layout: Layout, stages: usize, costs: &LayerCosts) -> Result<Stages> {
        Stages::cut_by(self.cuts, layout, stages, costs)
    }

    /// The two together, with the scale of the loss.
    ///
    /// # Errors
    /// As [`Pipeline::new`].
    pub fn pipeline(&self, schedule: Schedule, stages: Stages) -> Result<Pipeline> {
        Ok(Pipeline::new(schedule, stages)?.with_loss_scale(self.loss_scale))
    }
}

impl Default for Core {
    /// The reference.
    fn default() -> Self {
        Self::of(&Choice::default())
    }
}

/// The exercises of this chapter and of those that it builds on.
fn known() -> Exercises {
    [ch1_single_gpu::exercises::exercises(), exercises()].concat()
}
