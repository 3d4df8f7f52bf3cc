//! Exercise 2.5: the time of a ring all-reduce. The check lets real ranks do one, under a clock that knows nothing but the link.

use crate::core::AllReduceTime;
use crate::homework;
use crate::scaling::{Cost, all_reduce, only};
use candle_core::{DType, Device, Tensor};
use collective::{ClockKind, Link, Options, ReduceOp, Roofline, launch};
use lab::exercises::{Bug, Diagnosis, Exercise};

/// The table.
pub const ALL_REDUCE: Exercise<AllReduceTime> = Exercise {
    id: "2.5",
    title: "the time of a ring all-reduce",
    reference: all_reduce,
    homework: homework::all_reduce,
    stub: super::stub(&["all_reduce"]),
    hints: &[
        "How many rounds does it take until every chunk has met every rank once? And until every rank has every sum?",
        "2(p − 1) rounds. In each of them every rank sends one chunk and waits for one: what does a round take, if the chunks are not all \
         equally long?",
        "rounds · latency, and rounds · ⌈elements / p⌉ · width / bandwidth; with one rank there is no round.",
    ],
    bugs: &[
        Bug {
            name: "ring-half-the-rounds",
            what: "p − 1 rounds: sums that nobody passes on",
            implementation: half_the_rounds,
            diagnosis: "half the rounds",
        },
        Bug {
            name: "ring-whole-tensor",
            what: "the whole tensor in every round",
            implementation: whole_tensor,
            diagnosis: "the whole tensor in every round",
        },
        Bug {
            name: "ring-latency-once",
            what: "one latency for all rounds",
            implementation: latency_once,
            diagnosis: "every round waits for its latency",
        },
        Bug {
            name: "ring-elements-as-bytes",
            what: "an element counts as one byte",
            implementation: elements_as_bytes,
            diagnosis: "`width`",
        },
    ],
    check,
};

/// Neither of the two decides alone: 3 ms, and 10 kB/s.
const LINK: Link = Link { name: "slow", latency: 3e-3, bandwidth: 1e4 };
/// Relative; the clock adds the rounds one by one.
const TOLERANCE: f64 = 1e-9;
/// Ranks and elements: chunks of equal length, and of two lengths.
const CASES: [(usize, usize); 5] = [(2, 8), (4, 64), (3, 10), (5, 41), (1, 7)];

fn check(time: &AllReduceTime) -> Result<(), Diagnosis> {
    for (ranks, elements) in CASES {
        let measured = measure(ranks, elements)?;
        let said = time(&LINK, ranks, elements, DType::F32.size_in_bytes());
        let near = |one: f64, other: f64| (one - other).abs() <= TOLERANCE * other.abs();
        if near(said.total(), measured) {
            continue;
        }
        let right = all_reduce(&LINK, ranks, elements, DType::F32.size_in_bytes());
        let guess = match () {
            () if near(2.0 * said.total(), measured) => {
                "That is half the rounds: the sums have to reach every rank, too."
            }
            () if near(said.latency, right.latency) && near(said.transfer, right.transfer * ranks as f64) => {
                "That is as if ranks sent the whole tensor in every round, in place of a chunk."
            }
            () if near(said.transfer, right.transfer) => "The bytes are right; every round waits for its latency.",
            () if near(said.transfer, right.transfer / DType::F32.size_in_bytes() as f64) => {
                "An element has `width` bytes."
            }
            () => "",
        };
        return Err(Diagnosis::new(format!(
            "the clock says {measured:.4} s, you say {:.4} s ({:.4} s of latency, {:.4} s on the link)\n{ranks} ranks, {elements} elements of \
             f32, {} s and {} B/s. {guess}",
            said.total(),
            said.latency,
            said.transfer,
            LINK.latency,
            LINK.bandwidth
        )));
    }
    Ok(())
}

/// Seconds of one all-reduce, by the clock of the slowest rank.
fn measure(ranks: usize, elements: usize) -> Result<f64, Diagnosis> {
    let clock = ClockKind::Roofline(Roofline { peak: 1e12, bandwidth: 1e12, efficiency: 1.0 });
    let options = Options { topology: only(LINK), clock, ..Options::default() };
    let ends = launch(ranks, &options, |rank| {
        let mine = Tensor::ones(elements, DType::F32, &Device::Cpu)?;
        let begun = rank.clock().now();
        rank.communicator().all_reduce(&mine, ReduceOp::Sum)?;
        Ok::<_, collective::Error>(rank.clock().now() - begun)
    })?;
    Ok(ends.into_iter().fold(0.0, f64::max))
}

fn half_the_rounds(link: &Link, ranks: usize, elements: usize, width: usize) -> Cost {
    let Cost { latency, transfer } = all_reduce(link, ranks, elements, width);
    Cost { latency: latency / 2.0, transfer: transfer / 2.0 }
}

fn whole_tensor(link: &Link, ranks: usize, elements: usize, width: usize) -> Cost {
    let cost = all_reduce(link, ranks, elements, width);
    Cost { transfer: 2.0 * (ranks - 1) as f64 * (elements * width) as f64 / link.bandwidth, ..cost }
}

fn latency_once(link: &Link, ranks: usize, elements: usize, width: usize) -> Cost {
    Cost { latency: link.latency, ..all_reduce(link, ranks, elements, width) }
}

fn elements_as_bytes(link: &Link, ranks: usize, elements: usize, _width: usize) -> Cost {
    all_reduce(link, ranks, elements, 1)
}
