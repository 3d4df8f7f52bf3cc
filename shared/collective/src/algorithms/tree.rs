//! Up and down a binomial tree: [`binomial`] says who is whose parent.

use super::{Parcel, Wire};
use crate::volume::binomial;
use crate::{ReduceOp, Result};
use candle_core::Tensor;

/// This rank's index in `members`, its parent, and its children (as members).
fn family(wire: &impl Wire, members: &[usize]) -> (Option<usize>, Vec<usize>) {
    let rank = wire.place().rank();
    let index = members.iter().position(|&member| member == rank).unwrap_or(0);
    let (parent, children) = binomial(index, members.len());
    (parent.map(|parent| members[parent]), children.into_iter().map(|child| members[child]).collect())
}

/// Reduces `tensor` in place: to the first of `members`, and back.
pub(crate) fn all_reduce(wire: &mut impl Wire, members: &[usize], tensor: &Tensor, op: ReduceOp) -> Result<()> {
    let (parent, children) = family(wire, members);
    if parent.is_none() && children.is_empty() {
        return Ok(());
    }
    let mut total = Parcel::of(tensor)?;
    for child in children {
        let received = wire.receive(child)?;
        total.buffer.combine_buffer(op, &received.buffer)?;
    }
    let root = match parent {
        Some(parent) => {
            wire.send(parent, total)?;
            None
        }
        None => Some(total),
    };
    broadcast(wire, members, root)?.buffer.write_to(tensor)
}

/// From the first of `members`, which has `own`, to all.
pub(crate) fn broadcast(wire: &mut impl Wire, members: &[usize], own: Option<Parcel>) -> Result<Parcel> {
    let (parent, children) = family(wire, members);
    let parcel = match (own, parent) {
        (None, Some(parent)) => wire.receive(parent)?,
        (Some(own), _) => own,
        (None, None) => return Err(super::lost()),
    };
    // The child with the largest subtree first.
    for child in children.into_iter().rev() {
        wire.send(child, Parcel { buffer: parcel.buffer.duplicate(), shape: parcel.shape.clone() })?;
    }
    Ok(parcel)
}
