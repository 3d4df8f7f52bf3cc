//! Around a ring: everyone sends to the next and receives from the one before, all at once.

use super::{Parcel, Wire, flat_parts};
use crate::elements::Buffer;
use crate::{ReduceOp, Result};
use candle_core::Tensor;

/// A rank's neighbours in the ring `ranks`.
struct Ring {
    index: usize,
    size: usize,
    next: usize,
    previous: usize,
}

impl Ring {
    fn of(wire: &impl Wire, ranks: &[usize]) -> Self {
        let (size, rank) = (ranks.len(), wire.place().rank());
        let index = ranks.iter().position(|&member| member == rank).unwrap_or(0);
        Self { index, size, next: ranks[(index + 1) % size], previous: ranks[(index + size - 1) % size] }
    }

    /// The rank `steps` before this one.
    fn before(&self, steps: usize) -> usize {
        (self.index + self.size - steps % self.size) % self.size
    }
}

/// Part `index` of the reduction of every rank's `parts`. Part c starts at rank c + 1 and grows on its way around to
/// rank c.
pub(crate) fn reduce_scatter(wire: &mut impl Wire, ranks: &[usize], parts: &[Tensor], op: ReduceOp) -> Result<Parcel> {
    let ring = Ring::of(wire, ranks);
    let mut moving = Parcel::of(&parts[ring.before(1)])?;
    for step in 2..=ring.size {
        moving = wire.send_receive(ring.next, moving, ring.previous)?;
        moving.buffer.combine(op, &parts[ring.before(step)])?;
    }
    Ok(moving)
}

/// Passes every rank's parcel once around; `arrived` gets each, with the index of its owner.
fn circulate(
    wire: &mut impl Wire,
    ranks: &[usize],
    own: Parcel,
    mut arrived: impl FnMut(usize, &Parcel) -> Result<()>,
) -> Result<()> {
    let ring = Ring::of(wire, ranks);
    let mut moving = own;
    arrived(ring.index, &moving)?;
    for step in 1..ring.size {
        moving = wire.send_receive(ring.next, moving, ring.previous)?;
        arrived(ring.before(step), &moving)?;
    }
    Ok(())
}

/// Reduces in place: a reduce-scatter, then an all-gather. `parts` are views of one tensor, one per rank of the ring.
pub(crate) fn all_reduce(wire: &mut impl Wire, ranks: &[usize], parts: &[Tensor], op: ReduceOp) -> Result<()> {
    if ranks.len() < 2 {
        return Ok(());
    }
    let own = reduce_scatter(wire, ranks, parts, op)?;
    circulate(wire, ranks, own, |owner, parcel| parcel.buffer.write_to(&parts[owner]))
}

/// The tensors of all ranks of the ring, in its order.
pub(crate) fn all_gather(wire: &mut impl Wire, ranks: &[usize], tensor: &Tensor) -> Result<Vec<Tensor>> {
    let mut parts = vec![None; ranks.len()];
    circulate(wire, ranks, Parcel::of(tensor)?, |owner, parcel| {
        parts[owner] = Some(parcel.to_tensor()?);
        Ok(())
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// Down the chain `order`, whose first has the values of `tensor`: in pieces, so that all links are busy at once.
pub(crate) fn broadcast(wire: &mut impl Wire, order: &[usize], tensor: &Tensor) -> Result<Parcel> {
    let ring = Ring::of(wire, order);
    let (first, last) = (ring.index == 0, ring.index + 1 == ring.size);
    let whole = Buffer::copy_of(tensor)?.into_tensor(tensor.dims())?;
    let pieces: Vec<_> = flat_parts(&whole, ring.size)?.into_iter().filter(|piece| piece.elem_count() > 0).collect();
    let mut to_pass: Option<Parcel> = None;
    for piece in &pieces {
        // The piece before leaves while this one arrives.
        let leaving = to_pass.take().map(|parcel| (ring.next, parcel));
        let receive = (!first).then_some(ring.previous);
        let arrived = if leaving.is_some() || receive.is_some() { wire.exchange(leaving, receive)? } else { None };
        let parcel = match arrived {
            Some(parcel) => {
                parcel.buffer.write_to(piece)?;
                parcel
            }
            None => Parcel::of(piece)?,
        };
        to_pass = (!last).then_some(parcel);
    }
    if let Some(parcel) = to_pass {
        wire.send(ring.next, parcel)?;
    }
    Parcel::of(&whole)
}
