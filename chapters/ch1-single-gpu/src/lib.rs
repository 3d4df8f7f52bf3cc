//! placeholder

pub mod stories;
