//! The exercises of this chapter, one file each: its table, its check, its bugs. The stubs are in [`crate::homework`].
//!
//! An exercise has the number of the lesson's section that it belongs to.

mod all_reduce;
mod rows_of_rank;
mod synchronise;

pub use all_reduce::ALL_REDUCE;
pub use rows_of_rank::ROWS_OF_RANK;
pub use synchronise::SYNCHRONISE;

use lab::exercises::{Exercises, Stub};

/// All of them, in the lesson's order.
pub fn exercises() -> Exercises {
    vec![&ROWS_OF_RANK, &SYNCHRONISE, &ALL_REDUCE]
}

/// Where the stub of `functions` stands.
const fn stub(functions: &'static [&'static str]) -> Stub {
    Stub { folder: env!("CARGO_MANIFEST_DIR"), file: "src/homework.rs", functions }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_check_passes_the_reference_stops_at_the_stub_and_tells_the_bugs_apart() {
        let problems = lab::exercises::verify(&super::exercises());
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }
}
