//! Loading: every source gives the right part of the right weight, and says clearly why it cannot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// A part is a list of ranges, often of one.
#![allow(clippy::single_range_in_vec_init)]

mod damaged;
mod folder;
mod gguf;
#[cfg(feature = "hub")]
mod hub;
mod made;
mod source;
mod support;
