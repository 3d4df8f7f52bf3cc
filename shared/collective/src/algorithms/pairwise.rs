//! In pairs: in step s a rank sends to the one s after it and receives from the one s before, so that every link is
//! used once per step.

use super::{Parcel, Wire};
use crate::Result;
use crate::elements::Buffer;
use candle_core::{DType, Tensor};

/// Part j of every member goes to member j; returns what this one got, in the members' order.
pub(crate) fn all_to_all(wire: &mut impl Wire, members: &[usize], parts: &[Tensor]) -> Result<Vec<Parcel>> {
    let (size, rank) = (members.len(), wire.place().rank());
    let index = members.iter().position(|&member| member == rank).unwrap_or(0);
    let mut received: Vec<Option<Parcel>> = (0..size).map(|_| None).collect();
    received[index] = Some(Parcel::of(&parts[index])?);
    for step in 1..size {
        let (to, from) = ((index + step) % size, (index + size - step) % size);
        received[from] = Some(wire.send_receive(members[to], Parcel::of(&parts[to])?, members[from])?);
    }
    Ok(received.into_iter().flatten().collect())
}

/// Dissemination (Hensgen, Finkel, Manber, 1988): after step k a rank has heard, through others, of the 2^k ranks
/// before it.
pub(crate) fn barrier(wire: &mut impl Wire) -> Result<()> {
    let (rank, size) = (wire.place().rank(), wire.place().size());
    let mut distance = 1;
    while distance < size {
        let nothing = Parcel { buffer: Buffer::zeros(DType::F32, 0)?, shape: vec![0] };
        wire.send_receive((rank + distance) % size, nothing, (rank + size - distance) % size)?;
        distance *= 2;
    }
    Ok(())
}
