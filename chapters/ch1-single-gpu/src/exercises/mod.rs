//! The exercises of this chapter, one file each: its table, its check, its bugs. The stubs are in [`crate::homework`].
//!
//! An exercise has the number of the lesson's section that it belongs to.

mod cache_bytes;
mod devices_for;
mod product_cost;
mod rows_at_ridge;

pub use cache_bytes::CACHE_BYTES;
pub use devices_for::DEVICES_FOR;
pub use product_cost::PRODUCT_COST;
pub use rows_at_ridge::ROWS_AT_RIDGE;

use lab::exercises::{Exercises, Stub};

/// All of them, in the lesson's order.
pub fn exercises() -> Exercises {
    vec![&PRODUCT_COST, &ROWS_AT_RIDGE, &CACHE_BYTES, &DEVICES_FOR]
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
