//! Schedules without tensors: which are valid, what they hold, how long they take.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checker;
mod files;
mod peaks;
mod published;
mod simulator;
