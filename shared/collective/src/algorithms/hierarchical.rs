//! Inside of a node over its fast links, between nodes only what must: each rank carries one chunk across.

use super::{Parcel, Wire, flat_parts, ring, tree};
use crate::volume::{Local, broadcast_levels};
use crate::{ReduceOp, Result};
use candle_core::Tensor;

/// Reduces `tensor` in place. The elements are cut into as many chunks as the smallest node has ranks; in each node,
/// rank j owns chunk j.
///
/// 1. Inside of a node, everyone gives chunk j to its owner, which adds up.
/// 2. The owners of one chunk, one per node, reduce it around a ring.
/// 3. Inside of a node, the owners give their chunks to everyone.
pub(crate) fn all_reduce(wire: &mut impl Wire, tensor: &Tensor, op: ReduceOp) -> Result<()> {
    let local = Local::of(wire.place());
    let chunks = flat_parts(tensor, local.owners)?;
    let count = local.node.len();
    let owns = local.index < local.owners;
    let step_peers = |step: usize| ((local.index + step) % count, (local.index + count - step) % count);
    // By rank, so that the order of adding is not that of the steps.
    let mut gathered: Vec<Option<Parcel>> = (0..count).map(|_| None).collect();
    for step in 1..count {
        let (to, from) = step_peers(step);
        let give = (to < local.owners).then(|| Parcel::of(&chunks[to])).transpose()?;
        let received = exchange(wire, give.map(|parcel| (local.node[to], parcel)), owns.then(|| local.node[from]))?;
        gathered[from] = received;
    }
    if let Some(peers) = local.peers() {
        let own = &chunks[local.index];
        let mut total = Parcel::of(own)?;
        for parcel in gathered.into_iter().flatten() {
            total.buffer.combine_buffer(op, &parcel.buffer)?;
        }
        total.buffer.write_to(own)?;
        ring::all_reduce(wire, &peers, &flat_parts(own, peers.len())?, op)?;
    }
    for step in 1..count {
        let (to, from) = step_peers(step);
        let give = if owns { Some((local.node[to], Parcel::of(&chunks[local.index])?)) } else { None };
        if let Some(parcel) = exchange(wire, give, (from < local.owners).then(|| local.node[from]))? {
            parcel.buffer.write_to(&chunks[from])?;
        }
    }
    Ok(())
}

/// Either half may be absent.
fn exchange(wire: &mut impl Wire, send: Option<(usize, Parcel)>, receive: Option<usize>) -> Result<Option<Parcel>> {
    if send.is_none() && receive.is_none() {
        return Ok(None);
    }
    wire.exchange(send, receive)
}

/// From `root`, which has `own`: by a tree to one rank of each node, then by a tree inside of each node.
pub(crate) fn broadcast(wire: &mut impl Wire, root: usize, own: Option<Parcel>) -> Result<Parcel> {
    let rank = wire.place().rank();
    let [heads, node] = broadcast_levels(wire.place(), root);
    let parcel = if heads.contains(&rank) { Some(tree::broadcast(wire, &heads, own)?) } else { None };
    tree::broadcast(wire, &node, parcel)
}
