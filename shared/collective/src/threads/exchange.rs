//! The rendezvous: one message out, one in, either of them or both at once.
//!
//! The rank that comes second finds the first waiting, and hands over or takes. Neither returns before both halves are
//! done.

use super::world::{Activity, Asked, On, State, World};
use crate::Result;
use crate::elements::Buffer;
use ledger::Kind;

/// What passes: elements, their shape, and when they arrive.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) buffer: Buffer,
    pub(crate) shape: Vec<usize>,
    pub(crate) arrival: f64,
}

/// Which messages belong together: those of one communicator, and of one collective operation or of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) communicator: u64,
    pub(crate) collective: Option<u64>,
}

/// One rank's exchange: peers are ranks of the world.
#[derive(Debug)]
pub(crate) struct Exchange {
    tag: Tag,
    outgoing: Option<(usize, Option<Message>)>,
    incoming: Option<(usize, Option<Message>)>,
}

impl Exchange {
    pub(crate) fn is_complete(&self) -> bool {
        !matches!(self.outgoing, Some((_, Some(_)))) && !matches!(self.incoming, Some((_, None)))
    }

    /// The peers that have not done their half.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let to = self.outgoing.as_ref().filter(|(_, message)| message.is_some()).map(|(to, _)| *to);
        let from = self.incoming.as_ref().filter(|(_, message)| message.is_none()).map(|(from, _)| *from);
        to.into_iter().chain(from).collect()
    }
}

impl World {
    /// Rank `rank` sends and receives. Returns what it received.
    pub(crate) fn exchange(
        &self,
        rank: usize,
        asked: &Asked,
        tag: Tag,
        send: Option<(usize, Message)>,
        receive: Option<usize>,
    ) -> Result<Option<Message>> {
        let _host = ledger::scope(Kind::Host);
        let outgoing = send.map(|(to, message)| (to, Some(message)));
        let mut own = Exchange { tag, outgoing, incoming: receive.map(|from| (from, None)) };
        let mut state = self.enter(rank, asked)?;
        if let Some((to, message)) = &mut own.outgoing {
            self.meet_peer(&mut state, *to, tag, |peer| match &mut peer.incoming {
                Some((from, place @ None)) if *from == rank => {
                    *place = message.take();
                    true
                }
                _ => false,
            });
        }
        if let Some((from, place)) = &mut own.incoming {
            self.meet_peer(&mut state, *from, tag, |peer| match &mut peer.outgoing {
                Some((to, message @ Some(_))) if *to == rank => {
                    *place = message.take();
                    true
                }
                _ => false,
            });
        }
        let done =
            if own.is_complete() { On::Exchange(own) } else { self.wait(state, rank, asked, On::Exchange(own))? };
        match done {
            On::Exchange(exchange) => Ok(exchange.incoming.and_then(|(_, message)| message)),
            On::Meeting(_) => Ok(None),
        }
    }

    /// Lets `hand_over` do this rank's half with `peer` if that waits in an exchange of the same tag, and wakes it if
    /// that was its last.
    fn meet_peer(&self, state: &mut State, peer: usize, tag: Tag, hand_over: impl FnOnce(&mut Exchange) -> bool) {
        let Activity::Waiting(waiting) = &mut state.ranks[peer] else { return };
        let On::Exchange(exchange) = &mut waiting.on else { return };
        if exchange.tag == tag && hand_over(exchange) && exchange.is_complete() {
            self.ring(peer, waiting);
        }
    }
}
