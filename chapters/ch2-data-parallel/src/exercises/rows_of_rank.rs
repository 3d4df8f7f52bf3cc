//! Exercise 2.2: which rows a rank computes. The check deals many batches to many ranks and looks for each row.

use crate::core::RowsOfRank;
use crate::{homework, shard};
use lab::exercises::{Bug, Diagnosis, Exercise};
use std::ops::Range;

/// The table.
pub const ROWS_OF_RANK: Exercise<RowsOfRank> = Exercise {
    id: "2.2",
    title: "the rows of a rank",
    reference: shard::rows_of_rank,
    homework: homework::rows_of_rank,
    stub: super::stub(&["rows_of_rank"]),
    hints: &[
        "10 rows on 4 ranks: 3, 3, 2, 2. Where does each part begin?",
        "Every rank has rows / ranks rows; rows % ranks of them have one more. Let these be the first ones.",
        "Part `rank` begins at rank · (rows / ranks) + min(rank, rows % ranks), and ends where part rank + 1 begins.",
    ],
    bugs: &[
        Bug {
            name: "rows-rank-ignored",
            what: "every rank computes the first rows",
            implementation: rank_ignored,
            diagnosis: "is `rank` used?",
        },
        Bug {
            name: "rows-remainder-lost",
            what: "rows that do not divide are on no rank",
            implementation: remainder_lost,
            diagnosis: "on no rank",
        },
        Bug {
            name: "rows-remainder-to-last",
            what: "the last rank computes all rows that do not divide",
            implementation: remainder_to_last,
            diagnosis: "waits for it",
        },
        Bug {
            name: "rows-rounded-up",
            what: "every rank takes rows / ranks, rounded up",
            implementation: rounded_up,
            diagnosis: "the batch ends at",
        },
    ],
    check,
};

/// Batches and ranks that are tried.
const MOST_ROWS: usize = 24;
const MOST_RANKS: usize = 9;

fn check(rows_of_rank: &RowsOfRank) -> Result<(), Diagnosis> {
    for ranks in 1..=MOST_RANKS {
        for rows in ranks..=MOST_ROWS {
            let parts: Vec<_> = (0..ranks).map(|rank| rows_of_rank(rows, ranks, rank)).collect();
            if let Some(problem) = problem(rows, &parts) {
                return Err(Diagnosis::new(format!("{rows} rows on {ranks} ranks: {parts:?}.\n{problem}")));
            }
        }
    }
    Ok(())
}

/// What is wrong with these parts of `rows` rows.
fn problem(rows: usize, parts: &[Range<usize>]) -> Option<String> {
    for (rank, part) in parts.iter().enumerate() {
        if part.start > part.end || part.end > rows {
            return Some(format!("Rank {rank} has rows {part:?}; the batch ends at {rows}."));
        }
        if let Some(other) = parts[..rank].iter().position(|other| !part.is_empty() && other == part) {
            return Some(format!("Rank {rank} computes the same rows as rank {other}: is `rank` used?"));
        }
    }
    for row in 0..rows {
        let on: Vec<_> = (0..parts.len()).filter(|&rank| parts[rank].contains(&row)).collect();
        match on.as_slice() {
            [_] => {}
            [] => return Some(format!("Row {row} is on no rank: the model would never learn from it.")),
            several => {
                return Some(format!("Row {row} is on ranks {several:?}: it would count {} times.", several.len()));
            }
        }
    }
    let longest = (0..parts.len()).max_by_key(|&rank| parts[rank].len())?;
    let (most, least) = (parts[longest].len(), parts.iter().map(ExactSizeIterator::len).min()?);
    (most > least + 1).then(|| {
        format!("Rank {longest} has {most} rows, another has {least}: each step waits for it. One row more is enough.")
    })
}

fn rank_ignored(rows: usize, ranks: usize, _rank: usize) -> Range<usize> {
    shard::rows_of_rank(rows, ranks, 0)
}

fn remainder_lost(rows: usize, ranks: usize, rank: usize) -> Range<usize> {
    let each = rows / ranks;
    rank * each..(rank + 1) * each
}

fn remainder_to_last(rows: usize, ranks: usize, rank: usize) -> Range<usize> {
    let each = rows / ranks;
    rank * each..if rank + 1 == ranks { rows } else { (rank + 1) * each }
}

fn rounded_up(rows: usize, ranks: usize, rank: usize) -> Range<usize> {
    let each = rows.div_ceil(ranks);
    rank * each..(rank + 1) * each
}
