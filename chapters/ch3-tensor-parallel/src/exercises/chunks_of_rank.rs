//! Exercise 3.7: which tokens of a long sequence a rank computes. The check deals out many sequences, looks for each token, and counts the
//! pairs that attention has to compute.

use crate::context::zigzag::{self, pairs};
use crate::core::ChunksOfRank;
use crate::homework;
use collective::chunk;
use lab::exercises::{Bug, Diagnosis, Exercise};
use std::ops::Range;

/// The table.
pub const CHUNKS_OF_RANK: Exercise<ChunksOfRank> = Exercise {
    id: "3.7",
    title: "the tokens of a rank",
    reference: zigzag::chunks_of_rank,
    homework: homework::chunks_of_rank,
    stub: super::stub(&["chunks_of_rank"]),
    hints: &[
        "The token at position p attends to p + 1 keys. Which rank has most to do if each gets consecutive tokens?",
        "Cut the sequence into 2 · ranks chunks. Which two together have as much work as any other two?",
        "Chunk `rank` and chunk `2 · ranks − 1 − rank`: collective::chunk(length, 2 * ranks, index).",
    ],
    bugs: &[
        Bug {
            name: "chunks-consecutive",
            what: "each rank gets two chunks that lie side by side",
            implementation: consecutive,
            diagnosis: "times the work of rank 0",
        },
        Bug {
            name: "chunks-in-turn",
            what: "chunk r and chunk r + ranks",
            implementation: in_turn,
            diagnosis: "is closer, but not even",
        },
        Bug {
            name: "chunks-mirror-off-by-one",
            what: "the second chunk is counted from 2 · ranks, not from 2 · ranks − 1",
            implementation: off_by_one,
            diagnosis: "on no rank",
        },
    ],
    check,
};

fn check(chunks_of_rank: &ChunksOfRank) -> Result<(), Diagnosis> {
    for ranks in 1..=6 {
        for length in [2 * ranks, 2 * ranks + 1, 96 * ranks, 1000] {
            let all: Vec<_> = (0..ranks).map(|rank| chunks_of_rank(length, ranks, rank)).collect();
            if let Some(problem) = problem(length, &all) {
                return Err(Diagnosis::new(format!("{length} tokens on {ranks} ranks: {all:?}.\n{problem}")));
            }
        }
    }
    Ok(())
}

fn problem(length: usize, all: &[[Range<usize>; 2]]) -> Option<String> {
    for (rank, chunks) in all.iter().enumerate() {
        if let Some(chunk) = chunks.iter().find(|chunk| chunk.start > chunk.end || chunk.end > length) {
            return Some(format!("Rank {rank} has tokens {chunk:?}; the sequence ends at {length}."));
        }
        if chunks[0].end > chunks[1].start {
            return Some(format!("Rank {rank}'s chunks are not in the order of their positions."));
        }
    }
    for token in 0..length {
        let holds = |rank: &usize| all[*rank].iter().any(|chunk| chunk.contains(&token));
        let on: Vec<_> = (0..all.len()).filter(holds).collect();
        match on.as_slice() {
            [_] => {}
            [] => return Some(format!("Token {token} is on no rank.")),
            several => {
                return Some(format!("Token {token} is on ranks {several:?}: it is computed {} times.", several.len()));
            }
        }
    }
    let work: Vec<_> = all.iter().map(|chunks| pairs(chunks)).collect();
    let (most, least) = (work.iter().max()?, work.iter().min()?);
    if length.is_multiple_of(2 * all.len()) && most != least {
        let ratio = *most as f64 / work[0] as f64;
        return Some(if ratio > 1.8 {
            format!(
                "Attention computes {work:?} pairs per head: the busiest rank has {ratio:.1} times the work of rank 0."
            )
        } else {
            format!(
                "Attention computes {work:?} pairs per head: that is closer, but not even. Pair early tokens with late ones."
            )
        });
    }
    None
}

fn consecutive(length: usize, ranks: usize, rank: usize) -> [Range<usize>; 2] {
    [chunk(length, 2 * ranks, 2 * rank), chunk(length, 2 * ranks, 2 * rank + 1)]
}

fn in_turn(length: usize, ranks: usize, rank: usize) -> [Range<usize>; 2] {
    [chunk(length, 2 * ranks, rank), chunk(length, 2 * ranks, rank + ranks)]
}

fn off_by_one(length: usize, ranks: usize, rank: usize) -> [Range<usize>; 2] {
    let last = 2 * ranks - 1;
    let second = if rank == 0 { last } else { 2 * ranks - rank };
    [chunk(length, 2 * ranks, rank), chunk(length, 2 * ranks, second)]
}
