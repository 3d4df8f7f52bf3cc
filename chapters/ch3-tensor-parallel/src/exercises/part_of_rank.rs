//! Exercise 3.2: which part of a weight a rank holds. The check multiplies nothing: it looks whether every part is where the product before
//! or behind it needs it.

use crate::core::PartOfRank;
use crate::layout::{self, Layout};
use crate::{exercises, homework};
use collective::chunk;
use decoder::weights::{Part, Role, WeightSpec};
use lab::exercises::{Bug, Diagnosis, Exercise};
use std::ops::Range;

/// The table.
pub const PART_OF_RANK: Exercise<PartOfRank> = Exercise {
    id: "3.2",
    title: "the part of a weight on a rank",
    reference: layout::part_of_rank,
    homework: homework::part_of_rank,
    stub: super::stub(&["part_of_rank"]),
    hints: &[
        "A weight is [out, in]. Whose outputs may be spread, q's or o's? And o's inputs are q's outputs, head by head.",
        "q, k, v, gate, up and their biases, embedding and head: rows, dimension 0. o and down: columns, dimension 1. Norms and the biases of \
         o and down: all of it. `collective::chunk(length, ranks, rank)` is one of equal parts.",
        "With more ranks than key heads, rank r has query heads of key head r / layout.replicas(): chunk(rows, kv_heads, rank / replicas).",
    ],
    bugs: &[
        Bug {
            name: "part-rank-ignored",
            what: "every rank holds the first part",
            implementation: rank_ignored,
            diagnosis: "is `rank` used?",
        },
        Bug {
            name: "part-down-by-rows",
            what: "o and down are cut by rows, as the others are",
            implementation: down_by_rows,
            diagnosis: "takes what the rank computed before",
        },
        Bug {
            name: "part-late-bias-cut",
            what: "the biases behind a reduction are cut, too",
            implementation: late_bias_cut,
            diagnosis: "is used whole on every rank",
        },
        Bug {
            name: "part-key-heads-in-turn",
            what: "shared key heads are dealt out in turn",
            implementation: key_heads_in_turn,
            diagnosis: "its query heads attend to",
        },
    ],
    check,
};

fn check(part_of_rank: &PartOfRank) -> Result<(), Diagnosis> {
    for (heads, kv_heads, tp) in [(4, 4, 2), (4, 2, 4), (8, 2, 8), (6, 3, 3), (4, 4, 1), (6, 1, 3)] {
        let config = exercises::model(heads, kv_heads)?;
        let layout = Layout::new(&config, tp)?;
        for weight in layout.weights() {
            let parts: Vec<_> = (0..tp).map(|rank| part_of_rank(&layout, weight, rank)).collect();
            check_weight(&layout, weight, &parts).map_err(|problem| {
                Diagnosis::new(format!(
                    "{heads} heads, {kv_heads} key heads on {tp} ranks, {} {:?}: {problem}",
                    weight.name, weight.shape
                ))
            })?;
        }
    }
    Ok(())
}

/// What is wrong with the parts of one weight.
fn check_weight(layout: &Layout, weight: &WeightSpec, parts: &[Part]) -> Result<(), String> {
    use Role::{
        Down, Embedding, Gate, GateBias, Head, Key, KeyBias, Output, Query, QueryBias, Up, UpBias, Value, ValueBias,
    };
    let (tp, config) = (layout.tp(), layout.config());
    let dim = match weight.role {
        Query | QueryBias | Gate | Up | GateBias | UpBias | Embedding | Head | Key | Value | KeyBias | ValueBias => 0,
        Output | Down => 1,
        _ => {
            let cut = parts.iter().position(|part| part.shape(&weight.shape) != weight.shape);
            return cut.map_or(Ok(()), |rank| {
                Err(format!("rank {rank} holds {:?}; this weight is used whole on every rank.", parts[rank]))
            });
        }
    };
    for (rank, part) in parts.iter().enumerate() {
        let found = indices(part, dim, weight).ok_or_else(|| {
            let what = if dim == 0 {
                "computes its own outputs"
            } else {
                "takes what the rank computed before, its own columns"
            };
            format!("rank {rank} holds {part:?}; this product {what}: dimension {dim} is cut.")
        })?;
        let same = parts[..rank].iter().position(|other| other == part);
        if let (Some(other), 1) = (same, layout.replicas()) {
            return Err(format!("rank {rank} holds the same part as rank {other}: is `rank` used?"));
        }
        let expected: Range<usize> = match weight.role {
            Key | Value | KeyBias | ValueBias => {
                let group = config.heads / config.kv_heads;
                let queries = chunk(config.heads, tp, rank);
                let (first, last) = (queries.start / group, (queries.end - 1) / group);
                first * config.head_dim..(last + 1) * config.head_dim
            }
            _ => chunk(weight.shape[dim], tp, rank),
        };
        if found != expected.clone().collect::<Vec<_>>() {
            return Err(match weight.role {
                Key | Value | KeyBias | ValueBias => {
                    let heads = chunk(config.heads, tp, rank);
                    format!(
                        "rank {rank} holds {part:?}; its query heads attend to {expected:?} (it has heads {heads:?})."
                    )
                }
                _ => format!("rank {rank} holds {part:?}, expected {expected:?} along dimension {dim}."),
            });
        }
    }
    Ok(())
}

/// The indices along `dim` that a part holds; `None` if it is cut elsewhere, or not although it should be.
fn indices(part: &Part, dim: usize, weight: &WeightSpec) -> Option<Vec<usize>> {
    match part {
        Part::Whole => Some((0..weight.shape[dim]).collect()),
        Part::Ranges { dim: cut, ranges } if *cut == dim => Some(ranges.iter().cloned().flatten().collect()),
        _ => None,
    }
}

fn rank_ignored(layout: &Layout, weight: &WeightSpec, _rank: usize) -> Part {
    layout::part_of_rank(layout, weight, 0)
}

fn down_by_rows(layout: &Layout, weight: &WeightSpec, rank: usize) -> Part {
    match weight.role {
        Role::Output | Role::Down => Part::Ranges { dim: 0, ranges: vec![chunk(weight.shape[0], layout.tp(), rank)] },
        _ => layout::part_of_rank(layout, weight, rank),
    }
}

fn late_bias_cut(layout: &Layout, weight: &WeightSpec, rank: usize) -> Part {
    match weight.role {
        Role::OutputBias | Role::DownBias => {
            Part::Ranges { dim: 0, ranges: vec![chunk(weight.shape[0], layout.tp(), rank)] }
        }
        _ => layout::part_of_rank(layout, weight, rank),
    }
}

fn key_heads_in_turn(layout: &Layout, weight: &WeightSpec, rank: usize) -> Part {
    match weight.role {
        Role::Key | Role::Value | Role::KeyBias | Role::ValueBias if layout.replicas() > 1 => {
            let kv_heads = layout.config().kv_heads;
            Part::Ranges { dim: 0, ranges: vec![chunk(weight.shape[0], kv_heads, rank % kv_heads)] }
        }
        _ => layout::part_of_rank(layout, weight, rank),
    }
}
