//! The one trait over which ranks talk.

use crate::{Pending, ReduceOp, Request, Result, Traffic};
use candle_core::Tensor;
use std::sync::Arc;

/// One rank's end of a group of ranks.
///
/// An engine implements five methods on operations as data ([`Communicator::run`] and [`Communicator::start`] on a
/// [`Request`]); the rest are the methods to call. Rules that hold for all:
///
/// - The calls of one rank run one after the other, **in the order of their issue**, blocking or not, in all its
///   groups.
/// - Every rank of a group must ask for the same collective operations in the same order, with operands of one shape
///   and dtype.
/// - Tensors: f64, f32, f16, bf16, u32, i64. Values travel in that dtype and are added in f32 or wider. Results are the
///   same bits on every rank and share no memory with any operand. They are no part of candle's graph; see
///   [`autograd`](crate::autograd).
/// - `start_…` returns at once. Its operand must not change before [`Pending::wait`].
///
/// All return [`Error::Stopped`](crate::Error::Stopped) if the group failed, and
/// [`Error::Argument`](crate::Error::Argument) for a call without meaning.
pub trait Communicator: Send + Sync {
    /// This rank in the group: 0 to size − 1.
    fn rank(&self) -> usize;

    /// The group: ranks of the world, in the order of their rank here.
    fn members(&self) -> &[usize];

    /// Does `request` and returns its results.
    ///
    /// # Errors
    /// As above.
    fn run(&self, request: Request) -> Result<Vec<Tensor>>;

    /// Begins `request`.
    ///
    /// # Errors
    /// As above, as far as it is known at once.
    fn start(&self, request: Request) -> Result<Pending<Vec<Tensor>>>;

    /// Cuts the group into one per `color`, ranks in the order of `key`, then of their rank here. Every rank must call
    /// it.
    ///
    /// # Errors
    /// As above.
    fn split(&self, color: usize, key: usize) -> Result<Arc<dyn Communicator>>;

    /// What this rank did in this group so far.
    fn traffic(&self) -> Traffic;

    /// Ranks of the group.
    fn size(&self) -> usize {
        self.members().len()
    }

    /// The reduction of every rank's `tensor`, on every rank. Any shape.
    ///
    /// # Errors
    /// As above.
    fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> Result<Tensor> {
        one(self.run(Request::AllReduce { tensor: tensor.clone(), op, in_place: false })?)
    }

    /// [`all_reduce`](Self::all_reduce) over the operand itself, which must be contiguous.
    ///
    /// # Errors
    /// As above.
    fn all_reduce_in_place(&self, tensor: &Tensor, op: ReduceOp) -> Result<()> {
        self.run(Request::AllReduce { tensor: tensor.clone(), op, in_place: true }).map(drop)
    }

    /// The tensors of all ranks joined along `dim`, in order of rank: `[…, n, …]` on each gives `[…, n₀ + n₁ + …, …]`.
    /// They may differ in `n`.
    ///
    /// # Errors
    /// As above.
    fn all_gather(&self, tensor: &Tensor, dim: usize) -> Result<Tensor> {
        one(self.run(Request::AllGather { tensor: tensor.clone(), dim })?)
    }

    /// This rank's part along `dim` of the reduction: `[…, n, …]` gives `[…, n / size (+ 1), …]`, cut as
    /// [`chunk`](crate::chunk) does.
    ///
    /// # Errors
    /// As above.
    fn reduce_scatter(&self, tensor: &Tensor, op: ReduceOp, dim: usize) -> Result<Tensor> {
        one(self.run(Request::ReduceScatter { tensor: tensor.clone(), op, dim })?)
    }

    /// The tensor of rank `root`, on every rank. The others give one of the same shape and dtype; its values do not
    /// matter.
    ///
    /// # Errors
    /// As above.
    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Tensor> {
        one(self.run(Request::Broadcast { tensor: tensor.clone(), root })?)
    }

    /// Part j goes to rank j; returns what every rank had for this one, in order of rank. Parts may have any shapes,
    /// also empty ones.
    ///
    /// # Errors
    /// As above.
    fn all_to_all(&self, parts: &[Tensor]) -> Result<Vec<Tensor>> {
        self.run(Request::AllToAll { parts: parts.to_vec() })
    }

    /// Hands `tensor` to rank `to`: returns once that has received it (rendezvous).
    ///
    /// # Errors
    /// As above.
    fn send(&self, tensor: &Tensor, to: usize) -> Result<()> {
        self.run(Request::Send { tensor: tensor.clone(), to }).map(drop)
    }

    /// The tensor that rank `from` sends. Its shape and dtype travel with it.
    ///
    /// # Errors
    /// As above.
    fn recv(&self, from: usize) -> Result<Tensor> {
        one(self.run(Request::Receive { from })?)
    }

    /// Sends to `to` and receives from `from` at once: how neighbours exchange without waiting for each other in a
    /// circle.
    ///
    /// # Errors
    /// As above.
    fn send_recv(&self, tensor: &Tensor, to: usize, from: usize) -> Result<Tensor> {
        one(self.run(Request::SendReceive { tensor: tensor.clone(), to, from })?)
    }

    /// Returns once every rank of the group has called it.
    ///
    /// # Errors
    /// As above.
    fn barrier(&self) -> Result<()> {
        self.run(Request::Barrier).map(drop)
    }

    /// Begins an [`all_reduce`](Self::all_reduce).
    ///
    /// # Errors
    /// As above.
    fn start_all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> Result<Pending<Tensor>> {
        Ok(self.start(Request::AllReduce { tensor: tensor.clone(), op, in_place: false })?.map(one))
    }

    /// Begins an [`all_reduce_in_place`](Self::all_reduce_in_place).
    ///
    /// # Errors
    /// As above.
    fn start_all_reduce_in_place(&self, tensor: &Tensor, op: ReduceOp) -> Result<Pending<()>> {
        Ok(self.start(Request::AllReduce { tensor: tensor.clone(), op, in_place: true })?.map(none))
    }

    /// Begins an [`all_gather`](Self::all_gather).
    ///
    /// # Errors
    /// As above.
    fn start_all_gather(&self, tensor: &Tensor, dim: usize) -> Result<Pending<Tensor>> {
        Ok(self.start(Request::AllGather { tensor: tensor.clone(), dim })?.map(one))
    }

    /// Begins a [`reduce_scatter`](Self::reduce_scatter).
    ///
    /// # Errors
    /// As above.
    fn start_reduce_scatter(&self, tensor: &Tensor, op: ReduceOp, dim: usize) -> Result<Pending<Tensor>> {
        Ok(self.start(Request::ReduceScatter { tensor: tensor.clone(), op, dim })?.map(one))
    }

    /// Begins a [`broadcast`](Self::broadcast).
    ///
    /// # Errors
    /// As above.
    fn start_broadcast(&self, tensor: &Tensor, root: usize) -> Result<Pending<Tensor>> {
        Ok(self.start(Request::Broadcast { tensor: tensor.clone(), root })?.map(one))
    }

    /// Begins an [`all_to_all`](Self::all_to_all).
    ///
    /// # Errors
    /// As above.
    fn start_all_to_all(&self, parts: &[Tensor]) -> Result<Pending<Vec<Tensor>>> {
        self.start(Request::AllToAll { parts: parts.to_vec() })
    }

    /// Begins a [`send`](Self::send).
    ///
    /// # Errors
    /// As above.
    fn start_send(&self, tensor: &Tensor, to: usize) -> Result<Pending<()>> {
        Ok(self.start(Request::Send { tensor: tensor.clone(), to })?.map(none))
    }

    /// Begins a [`recv`](Self::recv).
    ///
    /// # Errors
    /// As above.
    fn start_recv(&self, from: usize) -> Result<Pending<Tensor>> {
        Ok(self.start(Request::Receive { from })?.map(one))
    }

    /// Begins a [`send_recv`](Self::send_recv).
    ///
    /// # Errors
    /// As above.
    fn start_send_recv(&self, tensor: &Tensor, to: usize, from: usize) -> Result<Pending<Tensor>> {
        Ok(self.start(Request::SendReceive { tensor: tensor.clone(), to, from })?.map(one))
    }
}

/// The single result of an operation.
fn one(mut results: Vec<Tensor>) -> Result<Tensor> {
    let found = results.len();
    match results.pop() {
        Some(tensor) if found == 1 => Ok(tensor),
        _ => Err(candle_core::Error::Msg(format!("an engine returned {found} tensors in place of one")).into()),
    }
}

fn none(_: Vec<Tensor>) -> Result<()> {
    Ok(())
}
