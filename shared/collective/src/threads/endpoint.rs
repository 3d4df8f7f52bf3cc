//! One rank's end of one group: the [`Communicator`] of the thread engine.

use super::direct;
use super::exchange::Tag;
use super::handle::{Handle, Slot};
use super::meeting::Deposit;
use super::operation::{Line, Meetings, prepare};
use super::stream::Stream;
use super::world::{Asked, World, stopped};
use crate::algorithms;
use crate::pending::Ticket;
use crate::traffic::Counter;
use crate::volume::Place;
use crate::{Algorithm, Call, Clock, Communicator, Operation, Pending, Request, Result, Sent, Topology, Traffic};
use candle_core::{Device, Tensor};
use ledger::Kind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// One rank's part of a group.
pub(crate) struct Group {
    /// The same number on every rank of the group.
    pub(crate) id: u64,
    pub(crate) members: Arc<[usize]>,
    pub(crate) place: Place,
    pub(crate) seat: Arc<Seat>,
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
        let tag = Tag { communicator: group.id, collective };
        let mut line = Line { group, asked: &asked, tag, at: issue, sent: Sent::default() };
        let mut results = match collective {
            Some(number) if group.seat.algorithm == Algorithm::Direct => {
                let mut meetings = Meetings { group, asked: &asked, number, phase: 0 };
                direct::run(&mut meetings, &local, kind)?
            }
            _ => algorithms::run(&mut line, group.seat.algorithm, &local, kind)?,
        };
        let (at, sent) = (line.at, line.sent);
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
        let kind = Kind::current();
        let _host = ledger::scope(Kind::Host);
        let slot = Arc::new(Slot::default());
        let handle = Handle { slot: slot.clone(), seat: self.0.seat.clone() };
        let (endpoint, issue) = (self.clone(), self.0.seat.clock.issue());
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
