//! Chapter 6: how are communication and memory optimised?
//!
//! The chapter itself is to come. It is the last, so it knows all others: what needs them all begins here.
//!
//! - [`compare`]: every layout doing the same work, side by side (`cargo compare`);
//! - [`exercises`]: those of every chapter (`cargo homework`).

pub mod compare;
pub mod exercises;
