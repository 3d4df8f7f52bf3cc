//! Exercise 4.4: how much a micro-batch's loss counts. The check adds gradients up, from equal and from unequal micro-batches.

use crate::core::LossScale;
use crate::{engine, homework};
use lab::exercises::{Bug, Diagnosis, Exercise};

/// The table.
pub const LOSS_SCALE: Exercise<LossScale> = Exercise {
    id: "4.4",
    title: "the loss of a micro-batch",
    reference: engine::loss_scale,
    homework: homework::loss_scale,
    stub: super::stub(&["loss_scale"]),
    hints: &[
        "The loss of the batch is the mean over all its targets. It has to be the sum of what the micro-batches contribute.",
        "A micro-batch comes with the *sum* of the losses of its targets. What must each target's loss be divided by?",
        "One of the three numbers is all you need.",
    ],
    bugs: &[
        Bug {
            name: "loss-mean-of-micro-batch",
            what: "each micro-batch's loss is its own mean: gradients are as many times too large as there are micro-batches",
            implementation: |own, _, _| 1.0 / own as f64,
            diagnosis: "times too large",
        },
        Bug {
            name: "loss-average-of-means",
            what: "the means of the micro-batches are averaged: targets of short ones count more",
            implementation: |own, _, parts| 1.0 / (own * parts) as f64,
            diagnosis: "counts more than another",
        },
        Bug {
            name: "loss-sum",
            what: "losses are added and not divided",
            implementation: |_, _, _| 1.0,
            diagnosis: "not a mean",
        },
    ],
    check,
};

/// Targets of the micro-batches: equal ones, then unequal ones, also one without any target.
const BATCHES: [&[usize]; 5] = [&[10, 10, 10, 10], &[7, 7], &[12, 3], &[9, 1, 5, 1], &[6, 4, 2]];

fn check(loss_scale: &LossScale) -> Result<(), Diagnosis> {
    for targets in BATCHES {
        let (batch, parts) = (targets.iter().sum::<usize>(), targets.len());
        let scales: Vec<f64> = targets.iter().map(|&own| loss_scale(own, batch, parts)).collect();
        let each = 1.0 / batch as f64;
        let numbers = format!("micro-batches of {targets:?} targets: their losses are multiplied by {scales:?}");
        // If every target had loss 1, the mean would be 1.
        let mean: f64 = targets.iter().zip(&scales).map(|(&own, scale)| own as f64 * scale).sum();
        Diagnosis::unless((mean - batch as f64).abs() > 1e-9, || {
            format!(
                "{numbers}.\nThat adds up to a sum, not a mean: the learning rate would have to change with the batch."
            )
        })?;
        Diagnosis::unless((mean - parts as f64).abs() > 1e-9, || {
            format!("{numbers}.\nThe gradient is {parts} times too large; with Adam the loss curve would not show it.")
        })?;
        for (&own, &scale) in targets.iter().zip(&scales) {
            Diagnosis::unless((scale - each).abs() <= 1e-12, || {
                format!(
                    "{numbers}.\nA target of the micro-batch with {own} counts more than another, or less: all {batch} count {each}."
                )
            })?;
        }
    }
    Ok(())
}
