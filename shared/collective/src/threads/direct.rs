//! `direct`: ranks read each other's tensors in place of sending messages.
//!
//! A rank hands out its operand in a meeting, and does not return before everybody has read it (another meeting).
//! Reductions go in order of rank, in wide values, rounded once.

use super::meeting::{Deposit, Deposits};
use super::operation::Meetings;
use crate::algorithms::{Parcel, join, parts_along};
use crate::elements::Buffer;
use crate::{Error, ReduceOp, Request, Result, chunk};
use candle_core::Tensor;
use ledger::Kind;
use std::sync::{Arc, PoisonError, RwLock};

/// Up to this size every rank copies its operand and adds all copies itself: one meeting.
const SMALL: usize = 64 << 10;
/// Bytes that a rank reduces before it writes. Less stays in a nearer cache, but means more meetings; measured from 32
/// KiB to 4 MiB.
const BLOCK: usize = 1 << 20;

/// Does `request`, whose tensors are contiguous and on CPU; results are allocated as `kind`.
pub(crate) fn run(meetings: &mut Meetings<'_>, request: &Request, kind: Kind) -> Result<Vec<Tensor>> {
    let (rank, size) = (meetings.rank(), meetings.size());
    let own = |tensor: &Tensor| {
        let _kind = ledger::scope(kind);
        Parcel::of(tensor)?.to_tensor()
    };
    Ok(match request {
        Request::AllReduce { tensor, op, .. } => {
            all_reduce(meetings, tensor, *op)?;
            Vec::new()
        }
        Request::AllGather { tensor, dim } => {
            let parts = firsts(&meetings.meet(Deposit::Tensors(vec![tensor.clone()]))?);
            let result = join(&parts, *dim, kind)?;
            meetings.meet(Deposit::Nothing)?;
            vec![result]
        }
        Request::ReduceScatter { tensor, op, dim } => {
            let all = firsts(&meetings.meet(Deposit::Tensors(vec![tensor.clone()]))?);
            let parts: Vec<_> = all
                .iter()
                .map(|tensor| Ok(parts_along(tensor, *dim, size)?.swap_remove(rank)))
                .collect::<Result<_>>()?;
            let shape = parts[rank].dims().to_vec();
            let _kind = ledger::scope(kind);
            let mut result = Buffer::zeros(tensor.dtype(), parts[rank].elem_count())?;
            result.reduce(*op, &parts)?;
            meetings.meet(Deposit::Nothing)?;
            vec![result.into_tensor(&shape)?]
        }
        Request::Broadcast { tensor, root } => {
            let mine = if rank == *root { vec![tensor.clone()] } else { Vec::new() };
            let all = meetings.meet(Deposit::Tensors(mine))?;
            let result = firsts(&all).first().map(own).transpose()?;
            meetings.meet(Deposit::Nothing)?;
            result.into_iter().collect()
        }
        Request::AllToAll { parts } => {
            let all = meetings.meet(Deposit::Tensors(parts.clone()))?;
            let for_me = all.iter().filter_map(|deposit| tensors(deposit).get(rank));
            let result = for_me.map(own).collect::<Result<_>>()?;
            meetings.meet(Deposit::Nothing)?;
            result
        }
        Request::Barrier => {
            meetings.meet(Deposit::Nothing)?;
            Vec::new()
        }
        // Messages between two ranks are the same under every algorithm: the caller sends them.
        Request::Send { .. } | Request::Receive { .. } | Request::SendReceive { .. } => Vec::new(),
    })
}

fn tensors(deposit: &Deposit) -> &[Tensor] {
    match deposit {
        Deposit::Tensors(tensors) => tensors,
        _ => &[],
    }
}

/// The first tensor of everyone who brought one.
fn firsts(deposits: &Deposits) -> Vec<Tensor> {
    deposits.iter().filter_map(|deposit| tensors(deposit).first().cloned()).collect()
}

fn all_reduce(meetings: &mut Meetings<'_>, tensor: &Tensor, op: ReduceOp) -> Result<()> {
    if meetings.size() == 1 {
        return Ok(());
    }
    if tensor.elem_count() * tensor.dtype().size_in_bytes() > SMALL {
        return all_reduce_blocks(meetings, &tensor.flatten_all()?, op);
    }
    let copy = Parcel::of(tensor)?.buffer.into_tensor(&[tensor.elem_count()])?;
    let all = firsts(&meetings.meet(Deposit::Tensors(vec![copy]))?);
    let mut total = Buffer::zeros(tensor.dtype(), tensor.elem_count())?;
    total.reduce(op, &all)?;
    total.write_to(tensor)
}

/// Block by block: each rank reduces its part of the block into memory of its own; after a meeting, each writes the
/// whole block over its tensor. So the operands pass through the cache once.
///
/// One meeting per block is enough. Who is ahead reads block k + 1 of a tensor whose owner still writes block k; and
/// parts lie in two places in turn, so that those of block k are written over only after the meeting of block k + 1,
/// when everybody has used them.
fn all_reduce_blocks(meetings: &mut Meetings<'_>, flat: &Tensor, op: ReduceOp) -> Result<()> {
    let (rank, size) = (meetings.rank(), meetings.size());
    let part = BLOCK / flat.dtype().size_in_bytes();
    let (block, elements) = (part * size, flat.elem_count());
    let place = || Ok::<_, Error>(RwLock::new(Buffer::zeros(flat.dtype(), part)?));
    let own = Arc::new([place()?, place()?]);
    let all = meetings.meet(Deposit::Shared(flat.clone(), own.clone()))?;
    let shared = all.iter().filter_map(|deposit| match deposit {
        Deposit::Shared(tensor, parts) => Some((tensor, parts)),
        _ => None,
    });
    let (tensors, parts): (Vec<_>, Vec<_>) = shared.unzip();
    for (number, start) in (0..elements).step_by(block).enumerate() {
        let length = block.min(elements - start);
        let view = |tensor: &Tensor, index| {
            let part = chunk(length, size, index);
            tensor.narrow(0, start + part.start, part.len())
        };
        let mine: Vec<_> = tensors.iter().map(|tensor| view(tensor, rank)).collect::<candle_core::Result<_>>()?;
        own[number % 2].write().unwrap_or_else(PoisonError::into_inner).reduce(op, &mine)?;
        meetings.meet(Deposit::Nothing)?;
        for (index, part) in parts.iter().enumerate() {
            let part = part[number % 2].read().unwrap_or_else(PoisonError::into_inner);
            part.write_to(&view(flat, index)?)?;
        }
    }
    // Nobody reads this rank's tensor any more: the last block was read before its meeting.
    Ok(())
}
