//! Going through a schedule in an order in which everything an action needs has been done before it.
//!
//! Each stage has a place in its list. A stage goes on until it needs something that is not there yet; whoever makes that wakes it
//! up. If nobody goes on before all lists are done, the schedule is a deadlock, and what each stage waits for is the explanation.

use super::{Action, Layout, Schedule, Work};
use crate::{Error, Result};
use std::collections::VecDeque;

/// What one stage does next: one action, or two that run together.
pub(crate) struct Step<'a> {
    pub(crate) stage: usize,
    pub(crate) actions: &'a [Action],
}

/// Calls `run` for every step.
///
/// # Errors
/// An action that is missing, there twice or without meaning; a deadlock.
pub(crate) fn walk<'a>(schedule: &'a Schedule, mut run: impl FnMut(Step<'a>)) -> Result<()> {
    complete(schedule)?;
    let mut done = Done::new(schedule);
    let mut next = vec![0; schedule.stages.len()];
    let mut awake: VecDeque<usize> = (0..schedule.stages.len()).collect();
    let mut is_awake = vec![true; schedule.stages.len()];
    while let Some(stage) = awake.pop_front() {
        is_awake[stage] = false;
        while let Some(actions) = step(&schedule.stages[stage], next[stage]) {
            if actions.iter().any(|action| done.missing(stage, action).is_some()) {
                break;
            }
            run(Step { stage, actions });
            next[stage] += actions.len();
            for action in actions {
                let woken = done.set(stage, action);
                if let Some(other) = woken.filter(|&other| !is_awake[other]) {
                    is_awake[other] = true;
                    awake.push_back(other);
                }
            }
        }
    }
    match (0..next.len()).find(|&stage| next[stage] < schedule.stages[stage].len()) {
        Some(stuck) => Err(Error::Schedule(deadlock(schedule, &done, &next, stuck))),
        None => Ok(()),
    }
}

fn step(list: &[Action], index: usize) -> Option<&[Action]> {
    let first = list.get(index)?;
    list.get(index..index + 1 + usize::from(first.with_next))
}

/// What an action waits for: another action, by micro-batch and position.
#[derive(Clone, Copy)]
struct Need {
    gradient: bool,
    micro_batch: usize,
    position: usize,
}

/// Which results are there, by micro-batch and position.
struct Done {
    layout: Layout,
    stages: usize,
    positions: usize,
    forward: Vec<bool>,
    gradient: Vec<bool>,
}

impl Done {
    fn new(schedule: &Schedule) -> Self {
        let positions = schedule.positions();
        let none = vec![false; schedule.micro_batches * positions];
        let (layout, stages) = (schedule.layout, schedule.stages.len());
        Self { layout, stages, positions, forward: none.clone(), gradient: none }
    }

    fn position(&self, stage: usize, action: &Action) -> usize {
        self.layout.position(self.stages, stage, action.chunk)
    }

    /// The first thing that `action` waits for.
    fn missing(&self, stage: usize, action: &Action) -> Option<Need> {
        let (micro_batch, position) = (action.micro_batch, self.position(stage, action));
        let need = |gradient, position| Need { gradient, micro_batch, position };
        let needs = match action.work {
            Work::Forward => [position.checked_sub(1).map(|before| need(false, before)), None],
            Work::Backward | Work::InputGradient => {
                let after = (position + 1 < self.positions).then(|| need(true, position + 1));
                [Some(need(false, position)), after]
            }
            Work::WeightGradient => [Some(need(true, position)), None],
        };
        needs.into_iter().flatten().find(|need| {
            let there = if need.gradient { &self.gradient } else { &self.forward };
            !there[need.micro_batch * self.positions + need.position]
        })
    }

    /// `action` is done; returns the stage that may have waited for it.
    fn set(&mut self, stage: usize, action: &Action) -> Option<usize> {
        let position = self.position(stage, action);
        let index = action.micro_batch * self.positions + position;
        let next = match action.work {
            Work::Forward => {
                self.forward[index] = true;
                Some(position + 1).filter(|&next| next < self.positions)
            }
            Work::Backward | Work::InputGradient => {
                self.gradient[index] = true;
                position.checked_sub(1)
            }
            Work::WeightGradient => None,
        };
        next.map(|next| self.layout.at(self.stages, next, action.chunk).0)
    }
}

/// Who waits for what, from `stuck` on until it goes in a circle or ends at a stage that does not get there.
fn deadlock(schedule: &Schedule, done: &Done, next: &[usize], stuck: usize) -> String {
    let mut lines = Vec::new();
    let mut visited = vec![false; next.len()];
    let mut stage = stuck;
    loop {
        let waiting = step(&schedule.stages[stage], next[stage]).unwrap_or_default();
        let found = waiting.iter().find_map(|action| Some((action, done.missing(stage, action)?)));
        let Some((action, need)) = found else { break };
        let (other, chunk) = schedule.layout.at(next.len(), need.position, action.chunk);
        let needed = if need.gradient { "the gradient" } else { "the forward" };
        let what = format!("{needed} of micro-batch {} in chunk {chunk} of stage {other}", need.micro_batch);
        let circle = if visited[other] || other == stage { ", which comes later there" } else { "" };
        lines.push(format!("stage {stage} waits in {action} (number {} of its list) for {what}{circle}", next[stage]));
        visited[stage] = true;
        if visited[other] {
            break;
        }
        stage = other;
    }
    format!("a deadlock: {}", lines.join("; "))
}

/// Every forward once, and every gradient once, whole or in its two halves; nothing else.
fn complete(schedule: &Schedule) -> Result<()> {
    let wrong = |problem: String| Err(Error::Schedule(problem));
    let (stages, micro_batches, chunks) = (schedule.stages.len(), schedule.micro_batches, schedule.layout.chunks());
    if stages == 0 || micro_batches == 0 || chunks == 0 {
        return wrong(format!("{stages} stages, {micro_batches} micro-batches, {chunks} chunks: at least one of each"));
    }
    // Before anything is allocated for numbers that a file made up.
    let pairs =
        if schedule.layout == Layout::Bidirectional { Some(micro_batches) } else { micro_batches.checked_mul(chunks) };
    if let Some(stage) = schedule.stages.iter().position(|list| pairs.is_none_or(|pairs| list.len() < pairs)) {
        return wrong(format!(
            "stage {stage} has {} actions: too few for {micro_batches} micro-batches through {chunks} chunks",
            schedule.stages[stage].len()
        ));
    }
    let mut seen = vec![0u8; micro_batches * chunks];
    for (stage, list) in schedule.stages.iter().enumerate() {
        seen.fill(0);
        for (index, action) in list.iter().enumerate() {
            let here = || format!("stage {stage}, number {index} of its list, {action}");
            if action.micro_batch >= micro_batches || action.chunk >= chunks {
                return wrong(format!(
                    "{}: micro-batches are 0 to {}, chunks 0 to {}",
                    here(),
                    micro_batches - 1,
                    chunks - 1
                ));
            }
            if !schedule.layout.passes(action.micro_batch, micro_batches, action.chunk) {
                return wrong(format!("{}: this micro-batch goes through the stage's other chunk", here()));
            }
            let bits = bits(action.work);
            let seen = &mut seen[action.micro_batch * chunks + action.chunk];
            if *seen & bits != 0 {
                return wrong(format!("{}: this was computed before", here()));
            }
            *seen |= bits;
            let pair = action.with_next.then(|| list.get(index + 1));
            if matches!(pair, Some(None)) || matches!(pair, Some(Some(next)) if next.with_next) {
                return wrong(format!("{}: two actions run together, not one or three", here()));
            }
        }
        for (index, &seen) in seen.iter().enumerate() {
            let (micro_batch, chunk) = (index / chunks, index % chunks);
            if !schedule.layout.passes(micro_batch, micro_batches, chunk) {
                continue;
            }
            let missing = [Work::Forward, Work::InputGradient, Work::WeightGradient];
            if let Some(missing) = missing.into_iter().find(|&work| seen & bits(work) == 0) {
                let name = Action::new(missing, micro_batch, chunk);
                return wrong(format!("stage {stage} never does {name}{}", half_of(missing, seen)));
            }
        }
    }
    Ok(())
}

fn half_of(missing: Work, seen: u8) -> &'static str {
    match missing {
        Work::Forward => "",
        Work::WeightGradient if seen & bits(Work::InputGradient) != 0 => ", the other half of a backward",
        _ => ", nor a whole backward in its place",
    }
}

fn bits(work: Work) -> u8 {
    match work {
        Work::Forward => 1,
        Work::InputGradient => 2,
        Work::WeightGradient => 4,
        Work::Backward => 6,
    }
}
