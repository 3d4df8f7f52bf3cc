//! The meeting: every rank of a group brings something, and leaves with what all have brought. The engine's other
//! primitive, for operations on shared memory and for splits.

use super::world::{Activity, Asked, On, State, World};
use crate::Result;
use crate::elements::Buffer;
use candle_core::Tensor;
use ledger::Kind;
use std::sync::{Arc, RwLock};

/// Communicator, number of the collective operation, number of the meeting in it.
pub(crate) type MeetingKey = (u64, u64, u32);

/// What a rank brings.
#[derive(Clone, Debug, Default)]
pub(crate) enum Deposit {
    #[default]
    Nothing,
    /// Tensors that the others may read until the next meeting.
    Tensors(Vec<Tensor>),
    /// A tensor that is reduced in place, and memory for this rank's parts of two blocks of it.
    Shared(Tensor, Arc<[RwLock<Buffer>; 2]>),
    /// Color and key.
    Split(usize, usize),
}

/// What all have brought, in order of rank.
pub(crate) type Deposits = Arc<[Deposit]>;

/// A meeting that is not complete.
#[derive(Debug)]
pub(crate) struct Meeting {
    deposits: Vec<Option<Deposit>>,
    arrived: usize,
}

/// A rank that waits in a meeting.
#[derive(Debug)]
pub(crate) struct Attendance {
    key: MeetingKey,
    group: Arc<[usize]>,
    deposits: Option<Deposits>,
}

impl Attendance {
    pub(crate) fn is_complete(&self) -> bool {
        self.deposits.is_some()
    }

    /// The members that have not come.
    pub(crate) fn missing(&self, state: &State) -> Vec<usize> {
        let Some(meeting) = state.meetings.get(&self.key) else { return Vec::new() };
        let absent = meeting.deposits.iter().zip(self.group.iter()).filter(|(deposit, _)| deposit.is_none());
        absent.map(|(_, &member)| member).collect()
    }
}

impl World {
    /// Member `index` of the group, rank `rank` of the world, brings `deposit` and waits for the others.
    pub(crate) fn meet(
        &self,
        rank: usize,
        index: usize,
        asked: &Asked,
        key: MeetingKey,
        deposit: Deposit,
    ) -> Result<Deposits> {
        let _host = ledger::scope(Kind::Host);
        let group = &asked.group;
        if group.len() == 1 {
            return Ok(Arc::new([deposit]));
        }
        let mut state = self.enter(rank, asked)?;
        let meeting =
            state.meetings.entry(key).or_insert_with(|| Meeting { deposits: vec![None; group.len()], arrived: 0 });
        meeting.deposits[index] = Some(deposit);
        meeting.arrived += 1;
        if meeting.arrived < group.len() {
            let attendance = Attendance { key, group: group.clone(), deposits: None };
            return match self.wait(state, rank, asked, On::Meeting(attendance))? {
                On::Meeting(Attendance { deposits: Some(deposits), .. }) => Ok(deposits),
                _ => Ok(Arc::new([])),
            };
        }
        let meeting = state.meetings.remove(&key);
        let deposits =
            meeting.into_iter().flat_map(|meeting| meeting.deposits).map(Option::unwrap_or_default).collect();
        let deposits: Deposits = deposits;
        for &member in group.iter().filter(|&&member| member != rank) {
            if let Activity::Waiting(waiting) = &mut state.ranks[member]
                && let On::Meeting(attendance) = &mut waiting.on
                && attendance.key == key
            {
                attendance.deposits = Some(deposits.clone());
                self.ring(member, waiting);
            }
        }
        Ok(deposits)
    }
}
