//! `cargo ch1 train` as its users have it: from the shell.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ended;
mod kill;
mod program;
mod refused;
