//! Exercise 4.3: the order of 1F1B. The check looks at what is in flight, and at how long stages wait.

use super::valid;
use crate::core::Order;
use crate::homework;
use crate::schedule::Action;
use crate::schedule::generators::{self, one_forward_one_backward_order};
use crate::simulate::{Links, Uniform, simulate};
use lab::exercises::{Bug, Diagnosis, Exercise};

/// The table.
pub const ONE_FORWARD_ONE_BACKWARD: Exercise<Order> = Exercise {
    id: "4.3",
    title: "the order of 1F1B",
    reference: one_forward_one_backward_order,
    homework: homework::one_forward_one_backward_order,
    stub: super::stub(&["one_forward_one_backward_order"]),
    hints: &[
        "The last stage can start a backward as soon as its first forward is done. When does the gradient reach the stage before it?",
        "Stage r does stages - 1 - r forwards first, or fewer if there are not as many micro-batches: exactly what the later stages need \
         to be busy until its first gradient is back.",
        "Then one forward and one backward in turn, as long as there are forwards; then the backwards that are left.",
    ],
    bugs: &[
        Bug {
            name: "order-gpipe",
            what: "all forwards come first",
            implementation: |_, _, micro_batches| generators::gpipe_order(micro_batches),
            diagnosis: "are enough",
        },
        Bug {
            name: "order-too-eager",
            what: "a stage starts its backwards one forward too early, and waits for them",
            implementation: |stage, stages, micro_batches| ahead(stages.saturating_sub(stage + 2), micro_batches),
            diagnosis: "stages wait",
        },
        Bug {
            name: "order-warm-up-of-the-wrong-end",
            what: "later stages do more forwards ahead, in place of earlier ones",
            implementation: |stage, _, micro_batches| ahead(stage, micro_batches),
            diagnosis: "a deadlock",
        },
        Bug {
            name: "order-without-an-end",
            what: "the backwards after the last forward are left out",
            implementation: without_an_end,
            diagnosis: "never does",
        },
    ],
    check,
};

fn check(order: &Order) -> Result<(), Diagnosis> {
    for stages in 1..=6 {
        for micro_batches in 1..=2 * stages + 1 {
            let schedule = valid(order, stages, micro_batches)?;
            let numbers = format!("{stages} stages, {micro_batches} micro-batches");
            let found = schedule.peak(|in_flight, _| in_flight);
            for (stage, &found) in found.iter().enumerate() {
                let enough = micro_batches.min(stages - stage);
                Diagnosis::unless(found <= enough, || {
                    format!(
                        "{numbers}: stage {stage} keeps the activations of {found} micro-batches at once; {enough} are enough."
                    )
                })?;
            }
            let simulation = simulate(&schedule, &Uniform::new(1.0, 1.0, 1.0), &Links::Constant(0.0))?;
            let (found, best) = (simulation.makespan(), 3.0 * (micro_batches + stages - 1) as f64);
            Diagnosis::unless(found <= best + 1e-9, || {
                format!(
                    "{numbers}: stages wait longer than they must: a step takes {found}, where a forward takes 1 and a backward 2; {best} is possible."
                )
            })?;
        }
    }
    Ok(())
}

/// Some forwards ahead, then one forward and one backward in turn.
fn ahead(ahead: usize, micro_batches: usize) -> Vec<Action> {
    let ahead = ahead.min(micro_batches);
    let mut order: Vec<Action> = (0..ahead).map(|i| Action::forward(i, 0)).collect();
    for i in 0..micro_batches {
        if ahead + i < micro_batches {
            order.push(Action::forward(ahead + i, 0));
        }
        order.push(Action::backward(i, 0));
    }
    order
}

fn without_an_end(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    let mut order = one_forward_one_backward_order(stage, stages, micro_batches);
    let ahead = (stages - 1 - stage).min(micro_batches);
    order.truncate(order.len() - ahead);
    order
}
