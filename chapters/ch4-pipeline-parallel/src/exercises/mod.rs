//! The exercises of this chapter, one file each: its table, its check, its bugs. The stubs are in [`crate::homework`].
//!
//! An exercise has the number of the lesson's section that it belongs to.

mod cuts;
mod loss_scale;
mod one_forward_one_backward;
mod zb_h1;

pub use cuts::CUTS;
pub use loss_scale::LOSS_SCALE;
pub use one_forward_one_backward::ONE_FORWARD_ONE_BACKWARD;
pub use zb_h1::ZB_H1;

use crate::core::Order;
use crate::schedule::{Layout, Schedule, generators};
use lab::exercises::{Diagnosis, Exercises, Stub};

/// All of them, in the lesson's order.
pub fn exercises() -> Exercises {
    vec![&CUTS, &ONE_FORWARD_ONE_BACKWARD, &LOSS_SCALE, &ZB_H1]
}

/// Where the stub of `functions` stands.
const fn stub(functions: &'static [&'static str]) -> Stub {
    Stub { folder: env!("CARGO_MANIFEST_DIR"), file: "src/homework.rs", functions }
}

/// The schedule in which every stage does its `order`; a diagnosis if it is none.
fn valid(order: &Order, stages: usize, micro_batches: usize) -> Result<Schedule, Diagnosis> {
    let of_stage = |stage| order(stage, stages, micro_batches);
    let schedule = generators::of_orders(Layout::Straight, stages, micro_batches, of_stage);
    let numbers = format!("{stages} stages, {micro_batches} micro-batches");
    schedule
        .check()
        .map_err(|error| Diagnosis::new(format!("{numbers}: {error}.\nstage 0: {:?}", schedule.stages[0])))?;
    Ok(schedule)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_check_passes_the_reference_stops_at_the_stub_and_tells_the_bugs_apart() {
        let problems = lab::exercises::verify(&super::exercises());
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }
}
