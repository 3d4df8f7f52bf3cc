//! The examples are tests: each asserts on every rank. In a test build their `main` is one.

#[path = "../../examples/all_gather.rs"]
mod all_gather;
#[path = "../../examples/all_reduce.rs"]
mod all_reduce;
#[path = "../../examples/all_to_all.rs"]
mod all_to_all;
#[path = "../../examples/barrier.rs"]
mod barrier;
#[path = "../../examples/broadcast.rs"]
mod broadcast;
#[path = "../../examples/failure.rs"]
mod failure;
#[path = "../../examples/mesh.rs"]
mod mesh;
#[path = "../../examples/overlap.rs"]
mod overlap;
#[path = "../../examples/reduce_scatter.rs"]
mod reduce_scatter;
#[path = "../../examples/send_recv.rs"]
mod send_recv;
