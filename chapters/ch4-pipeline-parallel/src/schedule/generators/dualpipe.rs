//! DualPipe (DeepSeek-V3, 2024; the order is that of `deepseek-ai/DualPipe`).
//!
//! Two copies of the model, one from each end; a forward of one direction runs together with a backward of the other. The stages
//! of the second half see the two directions the other way around, so the order is written for the first half.

use super::of_orders;
use crate::schedule::{Action, Layout, Schedule};
use std::collections::VecDeque;

/// The first half of the micro-batches enters at stage 0, the second at the last one.
pub fn dualpipe(stages: usize, micro_batches: usize) -> Schedule {
    of_orders(Layout::Bidirectional, stages, micro_batches, |stage| order(stage, stages, micro_batches))
}

fn order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    let (half, rank) = (stages / 2, stage.min(stages - 1 - stage));
    let ahead = half - rank - 1;
    let middle = rank == half - 1;
    let mut line = Line::new(stage >= half, micro_batches);
    for _ in 0..2 * ahead {
        line.forward(0);
    }
    for _ in 0..rank + 1 {
        line.forward(0);
        line.forward(1);
    }
    for _ in 0..ahead {
        line.input_gradient(1);
        line.weight_gradient();
        line.forward(1);
    }
    for turn in 0..micro_batches / 2 - stages + rank + 1 {
        if turn == 0 && middle {
            // Not together: this bubble is smaller.
            line.forward(0);
            line.backward(1);
        } else {
            line.together(0, 1);
        }
        line.together(1, 0);
    }
    for _ in 0..ahead {
        line.backward(1);
        line.together(1, 0);
    }
    let turns = rank + 1;
    for turn in 0..turns {
        let late = |direction: usize| {
            let from = turns / 2;
            turn > from || (turn == from && (rank % 2 == 1 || direction == 0))
        };
        for direction in [1, 0] {
            if late(direction) {
                line.input_gradient(direction);
            } else {
                line.backward(direction);
            }
        }
    }
    for _ in 0..ahead {
        line.weight_gradient();
        line.input_gradient(0);
    }
    while !line.late.is_empty() {
        line.weight_gradient();
    }
    line.order
}

/// The list so far. Direction 0 is the one whose end is nearer: chunk 0 in the first half of the stages, chunk 1 in the second.
struct Line {
    order: Vec<Action>,
    swapped: bool,
    first: [usize; 2],
    forwards: [usize; 2],
    backwards: [usize; 2],
    /// Weight gradients that were put off, in order.
    late: VecDeque<(usize, usize)>,
}

impl Line {
    fn new(swapped: bool, micro_batches: usize) -> Self {
        let first = [0, micro_batches / 2];
        Self { order: Vec::new(), swapped, first, forwards: [0; 2], backwards: [0; 2], late: VecDeque::new() }
    }

    fn chunk(&self, direction: usize) -> usize {
        if self.swapped { 1 - direction } else { direction }
    }

    fn next(&mut self, direction: usize, backward: bool) -> (usize, usize) {
        let chunk = self.chunk(direction);
        let count = if backward { &mut self.backwards } else { &mut self.forwards };
        let micro_batch = self.first[chunk] + count[chunk];
        count[chunk] += 1;
        (micro_batch, chunk)
    }

    fn forward(&mut self, direction: usize) {
        let (micro_batch, chunk) = self.next(direction, false);
        self.order.push(Action::forward(micro_batch, chunk));
    }

    fn backward(&mut self, direction: usize) {
        let (micro_batch, chunk) = self.next(direction, true);
        self.order.push(Action::backward(micro_batch, chunk));
    }

    fn input_gradient(&mut self, direction: usize) {
        let (micro_batch, chunk) = self.next(direction, true);
        self.order.push(Action::input_gradient(micro_batch, chunk));
        self.late.push_back((micro_batch, chunk));
    }

    fn weight_gradient(&mut self) {
        if let Some((micro_batch, chunk)) = self.late.pop_front() {
            self.order.push(Action::weight_gradient(micro_batch, chunk));
        }
    }

    fn together(&mut self, forward: usize, backward: usize) {
        self.forward(forward);
        if let Some(last) = self.order.last_mut() {
            last.with_next = true;
        }
        self.backward(backward);
    }
}
