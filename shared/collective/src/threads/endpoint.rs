//! One rank's end of one group: the [`Communicator`] of the thread engine.

use super::direct;
use super::exchange::{Message, Tag};
use super::meeting::{Deposit, Deposits};
use super::stream::Stream;
use super::world::{Asked, World, stopped};
use crate::algorithms::{self, Parcel, Wire};
use crate::pending::Ticket;
use crate::traffic::Counter;
use crate::volume::Place;
use crate::{
    Algorithm, Call, Clock, Communicator, Failure, Operation, Pending, Request, Result, Sent, Topology, Traffic,
};
use candle_core::{Device, Tensor};
use ledger::Kind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What all groups of one rank share.
pub(crate) struct Seat {
    pub(crate) rank: usize,
    pub(crate) world: Arc<World>,
    pub(crate) topology: Topology,
    pub(crate) algorithm: Algorithm,
    pub(crate) clock: Arc<Clock>,
    pub(crate) stream: Stream,
    pub(crate) traffic: Counter,
}

struct Group {
    /// The same number on every rank of the group.
    id: u64,
    members: Arc<[usize]>,
    place: Place,
    seat: Arc<Seat>,
    /// Collective operations so far.
    collectives: AtomicU64,
    traffic: Counter,
}

#[derive(Clone)]
pub(crate) struct Endpoint(Arc<Group>);

impl Endpoint {
    /// The end of `seat` in the group number `id`; `None` if it is no member.
    pub(crate) fn new(id: u64, members: Arc<[usize]>, seat: Arc<Seat>) -> Option<Self> {
        let rank = members.iter().position(|&member| member == seat.rank)?;
        let place = Place::of(rank, &members, &seat.topology);
        let (collectives, traffic) = (AtomicU64::new(0), Counter::default());
        Some(Self(Arc::new(Group { id, members, place, seat, collectives, traffic })))
    }

    fn asked(&self, call: Call) -> Asked {
        Asked { call: Arc::new(call), group: self.0.members.clone() }
    }

    /// The next collective operation's number.
    fn number(&self) -> u64 {
        self.0.collectives.fetch_add(1, Ordering::Relaxed)
    }

    /// Does `request`, issued at `issue`, with results of `kind`. Returns them and the time at which it is over.
    fn perform(&self, request: &Request, issue: f64, kind: Kind) -> Result<(Vec<Tensor>, f64)> {
        let _buffers = ledger::scope(Kind::Communication);
        let group = &*self.0;
        let call = {
            let _host = ledger::scope(Kind::Host);
            request.call()
        };
        let operation = call.operation;
        let asked = self.asked(call);
        let point_to_point = matches!(operation, Operation::Send | Operation::Receive | Operation::SendReceive);
        let collective = if point_to_point { None } else { Some(self.number()) };
        if let Some(number) = collective {
            let _host = ledger::scope(Kind::Host);
            group.seat.world.agree(group.seat.rank, &asked, group.id, number)?;
        }
        let device = request.operands().first().map_or(Device::Cpu, |tensor| tensor.device().clone());
        let local = prepare(request, kind)?;
        let at = group.seat.clock.begin(issue);
        let tag = Tag { communicator: group.id, collective };
        let mut line = Line { group, asked: &asked, tag, at, sent: Sent::default() };
        let mut results = match collective {
            Some(number) if group.seat.algorithm == Algorithm::Direct => {
                let mut meetings = Meetings { group, asked: &asked, number, phase: 0 };
                direct::run(&mut meetings, &local, kind)?
            }
            _ => algorithms::run(&mut line, group.seat.algorithm, &local, kind)?,
        };
        let (at, sent) = (line.at, line.sent);
        group.seat.clock.end(at);
        if let (Request::AllReduce { tensor, in_place, .. }, Request::AllReduce { tensor: reduced, .. }) =
            (request, &local)
        {
            match in_place {
                true if tensor.device().is_cpu() => {}
                true => tensor.flatten_all()?.slice_set(&reduced.flatten_all()?.to_device(&device)?, 0, 0)?,
                false => results.push(reduced.clone()),
            }
        }
        if !device.is_cpu() {
            let _kind = ledger::scope(kind);
            results = results.iter().map(|tensor| tensor.to_device(&device)).collect::<candle_core::Result<_>>()?;
        }
        let counted = if operation == Operation::Receive { &results[..] } else { request.operands() };
        let payload = counted.iter().map(|tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64).sum();
        let _host = ledger::scope(Kind::Host);
        for counter in [&group.traffic, &group.seat.traffic] {
            counter.record(operation, &group.members, payload, sent);
        }
        Ok((results, at))
    }

    /// Queues `request` behind what the rank has begun.
    fn enqueue(&self, request: Request) -> Result<Handle> {
        let _host = ledger::scope(Kind::Host);
        let slot = Arc::new(Slot::default());
        let handle = Handle { slot: slot.clone(), seat: self.0.seat.clone() };
        let (endpoint, kind, issue) = (self.clone(), Kind::current(), self.0.seat.clock.issue());
        let call = request.call();
        self.0.seat.stream.enqueue(Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| endpoint.perform(&request, issue, kind)));
            slot.fill(outcome.unwrap_or_else(|panic| {
                let seat = &endpoint.0.seat;
                seat.world.explain_panic(seat.rank, &super::launch::panic_message(panic.as_ref()));
                match seat.world.failure() {
                    Some(failure) => Err(stopped(seat.rank, &endpoint.asked(call), &failure)),
                    None => Err(candle_core::Error::Msg("the communication thread panicked".to_owned()).into()),
                }
            }));
        }))?;
        Ok(handle)
    }
}

/// The request with operands that an algorithm can work on: on CPU, contiguous, outside of the graph; and a copy where the result is
/// computed over the operand.
fn prepare(request: &Request, kind: Kind) -> Result<Request> {
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

impl Communicator for Endpoint {
    fn rank(&self) -> usize {
        self.0.place.rank()
    }

    fn members(&self) -> &[usize] {
        &self.0.members
    }

    fn run(&self, request: Request) -> Result<Vec<Tensor>> {
        request.check(self.rank(), self.size())?;
        let seat = &self.0.seat;
        let (issue, kind) = (seat.clock.issue(), Kind::current());
        match seat.stream.try_run(|| self.perform(&request, issue, kind)) {
            Ok(outcome) => {
                let (results, end) = outcome?;
                seat.clock.wait(end);
                Ok(results)
            }
            Err(_) => self.enqueue(request)?.wait(),
        }
    }

    fn start(&self, request: Request) -> Result<Pending<Vec<Tensor>>> {
        request.check(self.rank(), self.size())?;
        Ok(Pending::new(self.enqueue(request)?))
    }

    fn split(&self, color: usize, key: usize) -> Result<Arc<dyn Communicator>> {
        let endpoint = self.clone();
        let part = move || -> Result<Endpoint> {
            let _host = ledger::scope(Kind::Host);
            let Group { id, members, seat, place, .. } = &*endpoint.0;
            let (asked, number) = (endpoint.asked(Call::new(Operation::Split)), endpoint.number());
            seat.world.agree(seat.rank, &asked, *id, number)?;
            let deposit = Deposit::Split(color, key);
            let all = seat.world.meet(seat.rank, place.rank(), &asked, (*id, number, 0), deposit)?;
            let mut chosen: Vec<_> = all
                .iter()
                .enumerate()
                .filter_map(|(rank, deposit)| match deposit {
                    Deposit::Split(other, key) if *other == color => Some((*key, rank)),
                    _ => None,
                })
                .collect();
            chosen.sort_unstable();
            let group: Arc<[usize]> = chosen.iter().map(|&(_, rank)| members[rank]).collect();
            let child = seat.world.child(*id, number, color, group.len());
            for counter in [&endpoint.0.traffic, &seat.traffic] {
                counter.record(Operation::Split, members, 0, Sent::default());
            }
            Endpoint::new(child, group, seat.clone())
                .ok_or_else(|| candle_core::Error::Msg("a split lost its rank".to_owned()).into())
        };
        let made = match self.0.seat.stream.try_run(part) {
            Ok(made) => made?,
            Err(part) => {
                let slot = Arc::new(Slot::default());
                let filled = slot.clone();
                self.0.seat.stream.enqueue(Box::new(move || filled.fill(part())))?;
                slot.take()?
            }
        };
        Ok(Arc::new(made))
    }

    fn traffic(&self) -> Traffic {
        self.0.traffic.read()
    }
}

/// The wire of one operation: counts its bytes, and keeps its time.
struct Line<'a> {
    group: &'a Group,
    asked: &'a Asked,
    tag: Tag,
    at: f64,
    sent: Sent,
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
    group: &'a Group,
    asked: &'a Asked,
    number: u64,
    phase: u32,
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

/// Where a queued operation leaves its outcome.
struct Slot<T> {
    outcome: Mutex<Option<Result<T>>>,
    filled: Condvar,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { outcome: Mutex::new(None), filled: Condvar::new() }
    }
}

impl<T> Slot<T> {
    fn fill(&self, outcome: Result<T>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.filled.notify_all();
    }

    fn take(&self) -> Result<T> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => outcome = self.filled.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A queued operation.
struct Handle {
    slot: Arc<Slot<(Vec<Tensor>, f64)>>,
    seat: Arc<Seat>,
}

impl Ticket for Handle {
    type Output = Vec<Tensor>;

    fn wait(&mut self) -> Result<Vec<Tensor>> {
        // What the rank computed until now comes before its wait.
        self.seat.clock.issue();
        let (results, end) = self.slot.take()?;
        self.seat.clock.wait(end);
        Ok(results)
    }

    fn abort(&mut self) {
        let message = "it panicked with an operation under way".to_owned();
        self.seat.world.abort(Failure::Panic { rank: self.seat.rank, message });
    }
}
