//! Who waits for whom. A rank waits for *all* the ranks that its call still misses, and a waiting rank makes no other
//! call: so a circle of waits never opens again, and neither does a wait for a rank that has finished.

use super::world::{Activity, On, State, Waiting};
use crate::{Failure, Wait};

/// The ranks that `waiting`, of rank `rank`, still misses.
fn missing(state: &State, waiting: &Waiting) -> Vec<usize> {
    match &waiting.on {
        On::Exchange(exchange) => exchange.missing(),
        On::Meeting(attendance) => attendance.missing(state),
    }
}

fn wait(rank: usize, peer: usize, waiting: &Waiting) -> Wait {
    let asked = &waiting.asked;
    Wait { rank, peer, call: (*asked.call).clone(), group: asked.group.to_vec() }
}

/// The deadlock that exists since `rank` began to wait, if there is one.
pub(crate) fn circle(state: &State, rank: usize) -> Option<Failure> {
    let mut seen = vec![false; state.ranks.len()];
    let mut path = Vec::new();
    search(state, rank, rank, &mut seen, &mut path)
}

/// Depth first along waits from `from`, back to `start`.
fn search(state: &State, start: usize, from: usize, seen: &mut [bool], path: &mut Vec<Wait>) -> Option<Failure> {
    let Activity::Waiting(waiting) = &state.ranks[from] else { return None };
    for peer in missing(state, waiting) {
        path.push(wait(from, peer, waiting));
        if matches!(state.ranks[peer], Activity::Finished) {
            // Only the last wait counts: the others were there before.
            return Some(Failure::Deadlock { waits: path.split_off(path.len() - 1), finished: Some(peer) });
        }
        if peer == start {
            return Some(Failure::Deadlock { waits: std::mem::take(path), finished: None });
        }
        if !std::mem::replace(&mut seen[peer], true)
            && let Some(failure) = search(state, start, peer, seen, path)
        {
            return Some(failure);
        }
        path.pop();
    }
    None
}

/// The deadlock that exists since `finished` has finished: a rank that waits for it.
pub(crate) fn left_behind(state: &State, finished: usize) -> Option<Failure> {
    state.ranks.iter().enumerate().find_map(|(rank, activity)| {
        let Activity::Waiting(waiting) = activity else { return None };
        missing(state, waiting)
            .contains(&finished)
            .then(|| Failure::Deadlock { waits: vec![wait(rank, finished, waiting)], finished: Some(finished) })
    })
}
