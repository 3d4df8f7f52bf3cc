//! The orders, stage by stage. `stage` counts from 0, of `stages`; every one is a pure function of the numbers.

mod dualpipe;
mod interleaved;
mod plain;
mod zb_v;
mod zero_bubble;

pub use dualpipe::dualpipe;
pub use interleaved::{interleaved, interleaved_order, interleaved_warm_up};
pub use plain::{gpipe, gpipe_order, naive, one_forward_one_backward, one_forward_one_backward_order};
pub use zb_v::{zb_v, zb_v_order};
pub use zero_bubble::{zb_h1, zb_h1_order, zb_h2, zb_h2_order};

use super::{Action, Layout, Schedule};

/// The schedule in which stage s does `order(s)`.
pub fn of_orders(
    layout: Layout,
    stages: usize,
    micro_batches: usize,
    order: impl Fn(usize) -> Vec<Action>,
) -> Schedule {
    Schedule { layout, micro_batches, stages: (0..stages).map(order).collect() }
}
