//! One operation while it runs: its operands made ready, its messages counted and timed, its meetings numbered.

use super::endpoint::Group;
use super::exchange::{Message, Tag};
use super::meeting::{Deposit, Deposits};
use super::world::Asked;
use crate::algorithms::{Parcel, Wire};
use crate::volume::Place;
use crate::{Request, Result, Sent, Topology};
use candle_core::{Device, Tensor};
use ledger::Kind;

/// The request with operands that an algorithm can work on: on CPU, contiguous, outside of the graph; and a copy where
/// the result is computed over the operand.
pub(crate) fn prepare(request: &Request, kind: Kind) -> Result<Request> {
    let on_cpu = |tensor: &Tensor| tensor.detach().to_device(&Device::Cpu)?.contiguous();
    let mut local = request.clone();
    match &mut local {
        Request::AllReduce { tensor, in_place, .. } => {
            let prepared = on_cpu(tensor)?;
            let fresh = *in_place || !tensor.device().is_cpu() || !tensor.is_contiguous();
            *tensor = if fresh {
                prepared
            } else {
                let _kind = ledger::scope(kind);
                Parcel::of(&prepared)?.buffer.into_tensor(prepared.dims())?
            };
        }
        Request::AllGather { tensor, .. }
        | Request::ReduceScatter { tensor, .. }
        | Request::Broadcast { tensor, .. }
        | Request::Send { tensor, .. }
        | Request::SendReceive { tensor, .. } => *tensor = on_cpu(tensor)?,
        Request::AllToAll { parts } => {
            for part in parts {
                *part = on_cpu(part)?;
            }
        }
        Request::Receive { .. } | Request::Barrier => {}
    }
    Ok(local)
}

/// The wire of one operation: counts its bytes, and keeps its time.
pub(crate) struct Line<'a> {
    pub(crate) group: &'a Group,
    pub(crate) asked: &'a Asked,
    pub(crate) tag: Tag,
    pub(crate) at: f64,
    pub(crate) sent: Sent,
}

impl Wire for Line<'_> {
    fn place(&self) -> &Place {
        &self.group.place
    }

    fn exchange(&mut self, send: Option<(usize, Parcel)>, receive: Option<usize>) -> Result<Option<Parcel>> {
        let Group { members, place, seat, .. } = self.group;
        let mut over = self.at;
        let send = send.map(|(to, Parcel { buffer, shape })| {
            let bytes = buffer.bytes();
            let tier = Topology::tier(place.nodes()[place.rank()], place.nodes()[to]);
            let name = || format!("{} to rank {}", self.asked.call.operation, members[to]);
            let arrival = seat.clock.send(self.at, tier, &seat.topology.link(tier), bytes, name).arrival;
            self.sent += Sent::over(tier, bytes);
            over = over.max(arrival);
            (members[to], Message { buffer, shape, arrival })
        });
        let from = receive.map(|from| members[from]);
        let received = seat.world.exchange(seat.rank, self.asked, self.tag, send, from)?;
        if let Some(Message { arrival, .. }) = received {
            over = over.max(arrival);
        }
        self.at = over;
        Ok(received.map(|Message { buffer, shape, .. }| Parcel { buffer, shape }))
    }
}

/// The meetings of one operation, in order.
pub(crate) struct Meetings<'a> {
    pub(crate) group: &'a Group,
    pub(crate) asked: &'a Asked,
    pub(crate) number: u64,
    pub(crate) phase: u32,
}

impl Meetings<'_> {
    pub(crate) fn rank(&self) -> usize {
        self.group.place.rank()
    }

    pub(crate) fn size(&self) -> usize {
        self.group.place.size()
    }

    pub(crate) fn meet(&mut self, deposit: Deposit) -> Result<Deposits> {
        let Group { id, place, seat, .. } = self.group;
        let key = (*id, self.number, self.phase);
        self.phase += 1;
        seat.world.meet(seat.rank, place.rank(), self.asked, key, deposit)
    }
}
