//! What a communicator promises, on the thread engine: one program, one module per subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod autograd;
mod clock;
mod examples;
mod inputs;
mod memory;
mod mesh;
mod order;
mod random;
mod values;
mod volumes;
