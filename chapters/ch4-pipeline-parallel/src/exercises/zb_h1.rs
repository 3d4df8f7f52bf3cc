//! Exercise 4.5: the order of ZB-H1. The check looks at what is held, and at how long stages wait.

use super::valid;
use crate::core::Order;
use crate::homework;
use crate::schedule::generators::{one_forward_one_backward_order, zb_h1_order};
use crate::schedule::{Action, Work};
use crate::simulate::{Links, Uniform, simulate};
use lab::exercises::{Bug, Diagnosis, Exercise};

/// The table.
pub const ZB_H1: Exercise<Order> = Exercise {
    id: "4.5",
    title: "the order of ZB-H1",
    reference: zb_h1_order,
    homework: homework::zb_h1_order,
    stub: super::stub(&["zb_h1_order"]),
    hints: &[
        "Only the input gradient is waited for by another stage. So it comes as early as it can, and the weight gradient where a stage \
         would wait.",
        "The first stage waits for nobody after its input gradients: it computes each weight gradient at once. Later stages put more of \
         them off: stage r up to r of them.",
        "stages - r forwards. Then in turn, until all weight gradients are done: an input gradient if one is left; a weight gradient if \
         more than r are waiting, or if no input gradient is left; a forward if one is left.",
    ],
    bugs: &[
        Bug {
            name: "zb-whole-backwards",
            what: "both gradients are computed at once, as in 1F1B",
            implementation: one_forward_one_backward_order,
            diagnosis: "in two halves",
        },
        Bug {
            name: "zb-weights-at-once",
            what: "every weight gradient follows its input gradient: others wait for it",
            implementation: |stage, stages, micro_batches| in_turn(stages - stage, 0, micro_batches),
            diagnosis: "stages wait",
        },
        Bug {
            name: "zb-weights-last",
            what: "all weight gradients come at the end: what they need is held until then",
            implementation: |stage, stages, micro_batches| in_turn(stages - stage, micro_batches, micro_batches),
            diagnosis: "are enough",
        },
        Bug {
            name: "zb-weight-forgotten",
            what: "the weight gradients that were put off at the end are never computed",
            implementation: forgotten,
            diagnosis: "never does",
        },
    ],
    check,
};

fn check(order: &Order) -> Result<(), Diagnosis> {
    for stages in 1..=6 {
        for micro_batches in [1, stages, 2 * stages, 3 * stages + 1] {
            let schedule = valid(order, stages, micro_batches)?;
            let numbers = format!("{stages} stages, {micro_batches} micro-batches");
            let whole = schedule.stages.iter().flatten().find(|action| action.work == Work::Backward);
            Diagnosis::unless(whole.is_none(), || {
                format!("{numbers}: {whole:?} is a whole backward; ZB-H1 computes it in two halves, I and W.")
            })?;
            let held = schedule.peak(|in_flight, waiting| in_flight + waiting);
            for (stage, &held) in held.iter().enumerate() {
                let enough = micro_batches.min(stages);
                Diagnosis::unless(held <= enough, || {
                    format!(
                        "{numbers}: stage {stage} holds something of {held} micro-batches at once; {enough} are enough."
                    )
                })?;
            }
            if micro_batches < 2 * stages {
                continue;
            }
            let simulation = simulate(&schedule, &Uniform::new(1.0, 1.0, 1.0), &Links::Constant(0.0))?;
            let (found, best) = (simulation.cost(), (3 * micro_batches + stages - 1) as f64);
            Diagnosis::unless(found <= best + 1e-9, || {
                format!(
                    "{numbers}: stages wait longer than they must: a step costs {found}, where each part takes 1; {best} is possible."
                )
            })?;
        }
    }
    Ok(())
}

/// Forwards ahead; then input gradient, weight gradient if more than `lag` wait, forward.
fn in_turn(ahead: usize, lag: usize, micro_batches: usize) -> Vec<Action> {
    let mut forwards = ahead.min(micro_batches);
    let (mut inputs, mut weights) = (0, 0);
    let mut order: Vec<Action> = (0..forwards).map(|i| Action::forward(i, 0)).collect();
    while weights < micro_batches {
        if inputs < micro_batches {
            order.push(Action::input_gradient(inputs, 0));
            inputs += 1;
        }
        if inputs - weights > lag || (inputs == micro_batches && forwards == micro_batches) {
            order.push(Action::weight_gradient(weights, 0));
            weights += 1;
        }
        if forwards < micro_batches {
            order.push(Action::forward(forwards, 0));
            forwards += 1;
        }
    }
    order
}

fn forgotten(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    let mut order = zb_h1_order(stage, stages, micro_batches);
    while order.last().is_some_and(|action| action.work == Work::WeightGradient) {
        order.pop();
    }
    order
}
