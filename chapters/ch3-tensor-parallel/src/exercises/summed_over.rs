//! Exercise 3.5: which gradients are sums over ranks. The check goes through every weight of models with every kind of sharing.

use crate::core::SummedOver;
use crate::gradients::{self, Summed};
use crate::layout::Layout;
use crate::{exercises, homework};
use decoder::weights::Role;
use lab::exercises::{Bug, Diagnosis, Exercise};

/// The table.
pub const SUMMED_OVER: Exercise<SummedOver> = Exercise {
    id: "3.5",
    title: "gradients that are not whole yet",
    reference: gradients::summed_over,
    homework: homework::summed_over,
    stub: super::stub(&["summed_over"]),
    hints: &[
        "Which weights do several ranks hold? And for each of these: did the ranks use it on the same data, or on different data?",
        "Different data: other heads (norms of q and k, shared key heads), or, with sequence parallelism, other tokens.",
        "Norms and the biases behind a reduction see slices of the tokens under sequence parallelism: Everywhere. Without it: Nowhere. Shared \
         key heads (layout.replicas() > 1): Replicas.",
    ],
    bugs: &[
        Bug {
            name: "sum-norms-forgotten",
            what: "norms are not summed under sequence parallelism",
            implementation: norms_forgotten,
            diagnosis: "each rank saw a slice of the tokens",
        },
        Bug {
            name: "sum-norms-always",
            what: "norms are summed whether the sequence is cut or not",
            implementation: norms_always,
            diagnosis: "on every rank already: a sum would be",
        },
        Bug {
            name: "sum-head-norms-forgotten",
            what: "norms of q and k are not summed",
            implementation: head_norms_forgotten,
            diagnosis: "used it on heads of its own",
        },
        Bug {
            name: "sum-shared-keys-forgotten",
            what: "key heads that ranks share are not summed",
            implementation: shared_keys_forgotten,
            diagnosis: "only the gradient from its own query heads",
        },
        Bug {
            name: "sum-shared-keys-everywhere",
            what: "key heads that ranks share are summed over all ranks",
            implementation: shared_keys_everywhere,
            diagnosis: "other key heads would be added",
        },
    ],
    check,
};

fn check(summed_over: &SummedOver) -> Result<(), Diagnosis> {
    for (heads, kv_heads, tp) in [(4, 4, 2), (8, 2, 4), (8, 2, 2), (6, 1, 3)] {
        let config = exercises::model(heads, kv_heads)?;
        let layout = Layout::new(&config, tp)?;
        for sequence_parallel in [false, true] {
            for weight in layout.weights() {
                let found = summed_over(&layout, weight.role, sequence_parallel);
                if let Some(problem) = problem(&layout, weight.role, sequence_parallel, found) {
                    let form = if sequence_parallel { "with" } else { "without" };
                    return Err(Diagnosis::new(format!(
                        "{heads} heads, {kv_heads} key heads on {tp} ranks, {form} sequence parallelism, {}: {found:?}. {problem}",
                        weight.name
                    )));
                }
            }
        }
    }
    Ok(())
}

/// What is wrong with summing the gradient of `role` over `found`.
fn problem(layout: &Layout, role: Role, sequence_parallel: bool, found: Summed) -> Option<String> {
    let tp = layout.tp();
    let (expected, reason) = match role {
        Role::QueryNorm | Role::KeyNorm => {
            (Summed::Everywhere, "Every rank holds it, and used it on heads of its own.".to_owned())
        }
        Role::Key | Role::Value | Role::KeyBias | Role::ValueBias if layout.replicas() > 1 => {
            let replicas = layout.replicas();
            let reason = if found == Summed::Everywhere {
                "The gradients of other key heads would be added.".to_owned()
            } else {
                format!("{replicas} ranks hold this key head, each has only the gradient from its own query heads.")
            };
            (Summed::Replicas, reason)
        }
        Role::AttentionNorm | Role::FeedForwardNorm | Role::FinalNorm | Role::OutputBias | Role::DownBias => {
            if sequence_parallel {
                (Summed::Everywhere, "Every rank holds it, and each rank saw a slice of the tokens.".to_owned())
            } else {
                let reason = format!(
                    "All ranks used it on the same data, so the gradient is on every rank already: a sum would be {tp} times too large."
                );
                (Summed::Nowhere, reason)
            }
        }
        _ => (Summed::Nowhere, "Only this rank holds this part, and has its whole gradient.".to_owned()),
    };
    (found != expected).then_some(reason)
}

fn is_late(role: Role) -> bool {
    use Role::{AttentionNorm, DownBias, FeedForwardNorm, FinalNorm, OutputBias};
    matches!(role, AttentionNorm | FeedForwardNorm | FinalNorm | OutputBias | DownBias)
}

fn norms_forgotten(layout: &Layout, role: Role, sequence_parallel: bool) -> Summed {
    if is_late(role) { Summed::Nowhere } else { gradients::summed_over(layout, role, sequence_parallel) }
}

fn norms_always(layout: &Layout, role: Role, sequence_parallel: bool) -> Summed {
    if is_late(role) { Summed::Everywhere } else { gradients::summed_over(layout, role, sequence_parallel) }
}

fn head_norms_forgotten(layout: &Layout, role: Role, sequence_parallel: bool) -> Summed {
    match role {
        Role::QueryNorm | Role::KeyNorm => Summed::Nowhere,
        _ => gradients::summed_over(layout, role, sequence_parallel),
    }
}

fn shared_keys_forgotten(layout: &Layout, role: Role, sequence_parallel: bool) -> Summed {
    match gradients::summed_over(layout, role, sequence_parallel) {
        Summed::Replicas => Summed::Nowhere,
        other => other,
    }
}

fn shared_keys_everywhere(layout: &Layout, role: Role, sequence_parallel: bool) -> Summed {
    match gradients::summed_over(layout, role, sequence_parallel) {
        Summed::Replicas => Summed::Everywhere,
        other => other,
    }
}
