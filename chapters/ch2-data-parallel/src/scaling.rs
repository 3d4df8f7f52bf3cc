//! What communication costs over more ranks and slower links, and when it eats what the ranks gain.
//!
//! **Weak scaling**: every rank gets the same number of tokens, so p ranks do p times the work of one, and would take as long as one if
//! they did not have to communicate. What is left of that is the efficiency:
//!
//! ```text
//! efficiency = compute / (compute + communication)          p ranks are worth efficiency · p
//! ring all-reduce of S bytes = 2(p − 1) rounds, each latency + ⌈S / p⌉ / bandwidth
//! ```
//!
//! The first two terms can be read off: many small gradients pay latency, few large ones pay bandwidth. [`measure`] runs the real thing,
//! forward, backward and all-reduce on real ranks, under a clock that charges compute and links; [`synchronisation`] is the formula.

use crate::core::{AllReduceTime, Core};
use crate::serve::own;
use crate::traffic::{self, Volume};
use candle_core::Tensor;
use collective::volume::Place;
use collective::{Link, Options, Rank, Topology, launch};
use decoder::Context;
use decoder::split::Split;
use lab::batch::Batch;
use lab::loaded::Described;
use serde::Serialize;

/// How far the clock's step time may be from the formula's under the roofline clock, where nothing depends on the machine.
pub const TOLERANCE: f64 = 0.01;
/// Elements of the loss's all-reduce, f64: sum and count.
const LOSS: (usize, usize) = (2, size_of::<f64>());

/// Time of communication, by what it is spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Seconds on the way: rounds · latency.
    pub latency: f64,
    /// Seconds that the link is busy: bytes / bandwidth.
    pub transfer: f64,
}

impl Cost {
    /// All of it.
    pub fn total(self) -> f64 {
        self.latency + self.transfer
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let add = |total: Self, one: Self| Self {
            latency: total.latency + one.latency,
            transfer: total.transfer + one.transfer,
        };
        all.fold(Self::default(), add)
    }
}

/// A ring all-reduce of `elements` elements of `width` bytes over `ranks` ranks that `link` joins.
///
/// In each of the 2(p − 1) rounds every rank sends one chunk and waits for one; the largest chunk decides.
pub fn all_reduce(link: &Link, ranks: usize, elements: usize, width: usize) -> Cost {
    let rounds = 2.0 * ranks.saturating_sub(1) as f64;
    let chunk = (elements.div_ceil(ranks.max(1)) * width) as f64;
    Cost { latency: rounds * link.latency, transfer: rounds * chunk / link.bandwidth }
}

/// The same over nodes: once a ring leaves a node, its slowest hop decides, because every rank waits for its neighbour in every round.
pub fn all_reduce_over(
    all_reduce: AllReduceTime,
    topology: &Topology,
    ranks: usize,
    elements: usize,
    width: usize,
) -> Cost {
    let within = (topology.ranks_per_node > 1).then_some(topology.within);
    let between = (ranks > topology.ranks_per_node).then_some(topology.between);
    let costs = within.into_iter().chain(between).map(|link| all_reduce(&link, ranks, elements, width));
    costs.max_by(|a, b| a.total().total_cmp(&b.total())).unwrap_or_default()
}

/// One synchronisation: the loss, then each gradient (elements, bytes of each) by an all-reduce of its own, one after the other.
pub fn synchronisation(
    all_reduce: AllReduceTime,
    topology: &Topology,
    ranks: usize,
    gradients: &[(usize, usize)],
) -> Cost {
    let all = gradients.iter().chain([&LOSS]);
    all.map(|&(elements, width)| all_reduce_over(all_reduce, topology, ranks, elements, width)).sum()
}

/// The share of the time that is spent computing.
pub fn efficiency(compute: f64, communication: f64) -> f64 {
    compute / (compute + communication)
}

/// A model in training on one kind of device, as far as data parallelism is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    /// Parameters that have a gradient.
    pub parameters: u64,
    /// Parameters that a token passes through.
    pub active: u64,
    /// Bytes of one gradient's element.
    pub width: usize,
    /// FLOP per second that a device really does.
    pub rate: f64,
    /// How long an all-reduce takes.
    pub all_reduce: AllReduceTime,
}

impl Training {
    /// Seconds of forward and backward of `tokens` tokens: 6 FLOP per parameter and token (Kaplan et al., 2020).
    pub fn compute(&self, tokens: f64) -> f64 {
        6.0 * self.active as f64 * tokens / self.rate
    }

    /// One all-reduce of all gradients, as if they were one tensor.
    pub fn communication(&self, topology: &Topology, ranks: usize) -> Cost {
        all_reduce_over(self.all_reduce, topology, ranks, self.parameters as usize, self.width)
    }

    /// Tokens per rank and step with which computing takes as long as communicating: below, the link decides.
    pub fn break_even(&self, topology: &Topology, ranks: usize) -> f64 {
        self.communication(topology, ranks).total() / self.compute(1.0)
    }
}

/// All ranks joined by one link.
pub fn only(link: Link) -> Topology {
    Topology { ranks_per_node: usize::MAX, within: link, between: link }
}

/// What one step of some ranks took.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Seconds of forward and backward, of the slowest rank.
    pub compute: f64,
    /// Seconds until the last rank had the sum of all gradients.
    pub step: f64,
    /// Seconds of communication, by formula.
    pub predicted: Cost,
    /// By rank: what it had to send, and what it sent.
    pub traffic: Vec<(Volume, Volume)>,
}

impl Measured {
    /// Whether every rank sent what it had to, in as many calls.
    pub fn sent_as_predicted(&self) -> bool {
        self.traffic.iter().all(|(predicted, counted)| predicted == counted)
    }

    /// The most that a rank had to send, and the most that one sent.
    pub fn most_sent(&self) -> (u64, u64) {
        let most = |of: fn(&(Volume, Volume)) -> Volume| self.traffic.iter().map(|rank| of(rank).sent.total()).max();
        (most(|rank| rank.0).unwrap_or(0), most(|rank| rank.1).unwrap_or(0))
    }
}

/// One step of `ranks` replicas on `batch`: forward, backward, synchronisation. No optimiser: it does not communicate, and no clock
/// hears of it.
///
/// # Errors
/// A rank failed.
pub fn measure(
    core: &Core,
    described: &Described,
    batch: &Batch,
    ranks: usize,
    options: &Options,
) -> collective::Result<Measured> {
    let steps = launch(ranks, options, |rank| step(core, described, batch, rank, options))?;
    let slowest = |of: fn(&Step) -> f64| steps.iter().map(of).fold(0.0, f64::max);
    Ok(Measured {
        compute: slowest(|step| step.compute),
        step: slowest(|step| step.seconds),
        predicted: steps.first().map(|step| step.predicted).unwrap_or_default(),
        traffic: steps.into_iter().map(|step| step.traffic).collect(),
    })
}

/// One rank's step.
struct Step {
    compute: f64,
    seconds: f64,
    predicted: Cost,
    traffic: (Volume, Volume),
}

fn step(core: &Core, described: &Described, batch: &Batch, rank: &Rank, options: &Options) -> crate::Result<Step> {
    let (group, clock) = (rank.communicator().as_ref(), rank.clock());
    let model = described.load(&Split::whole())?;
    let ctx = Context::inference().with_observer(rank.observer());
    let begun = clock.now();
    let part = batch.rows(own(core, batch.sequences().len(), group.size(), group.rank())?)?;
    let (mut loss, mut gradients) = lab::gradients::contribution(&model, &ctx, &part, batch.targets())?;
    let computed = clock.now();
    let size = |gradient: &Tensor| (gradient.elem_count(), gradient.dtype().size_in_bytes());
    let sizes: Vec<(usize, usize)> = gradients.values().map(size).collect();
    (core.synchronise)(group, &mut loss, &mut gradients)?;
    let ended = clock.now();
    let place = Place::of(group.rank(), group.members(), &options.topology);
    Ok(Step {
        compute: computed - begun,
        seconds: ended - begun,
        predicted: synchronisation(core.all_reduce, &options.topology, group.size(), &sizes),
        traffic: (traffic::synchronisation(options.algorithm, &place, &sizes), Volume::counted(&group.traffic())),
    })
}

/// `rows` sequences of `seq` inputs and as many targets; what is computed does not depend on the ids.
///
/// # Errors
/// A size of 0, or more tokens than the model's context.
pub fn made_up(described: &Described, rows: usize, seq: usize) -> lab::Result<Batch> {
    let vocab = described.config.vocab.max(1);
    let id = |row: usize, position: usize| u32::try_from((row * 31 + position) * 7919 % vocab).unwrap_or(0);
    let sequences = (0..rows).map(|row| (0..=seq).map(|position| id(row, position)).collect()).collect();
    Batch::new("--seq", sequences, &described.config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const LINK: Link = Link { name: "test", latency: 1.0, bandwidth: 4.0 };

    #[test]
    fn a_ring_takes_two_times_p_minus_one_rounds_of_the_largest_chunk() {
        // 10 elements of 4 bytes on 4 ranks: chunks of 3, 3, 2, 2; 6 rounds of 12 bytes.
        let cost = all_reduce(&LINK, 4, 10, 4);
        assert_eq!(cost, Cost { latency: 6.0, transfer: 18.0 });
        assert_eq!(all_reduce(&LINK, 1, 10, 4), Cost::default());
    }

    #[test]
    fn a_ring_over_nodes_is_as_slow_as_its_slowest_hop() {
        let slow = Link { name: "slow", latency: 10.0, bandwidth: 1.0 };
        let topology = Topology { ranks_per_node: 4, within: LINK, between: slow };
        assert_eq!(all_reduce_over(all_reduce, &topology, 4, 64, 4), all_reduce(&LINK, 4, 64, 4), "one node");
        assert_eq!(all_reduce_over(all_reduce, &topology, 8, 64, 4), all_reduce(&slow, 8, 64, 4), "two nodes");
    }

    /// Bytes and FLOPs are both proportional to the parameters: the break-even is a property of device and link, not of the model.
    #[test]
    fn the_break_even_does_not_depend_on_the_size_of_the_model() {
        let of = |parameters| Training { parameters, active: parameters, width: 2, rate: 4e14, all_reduce };
        let at = |parameters| of(parameters).break_even(&only(Link::INFINIBAND), 8);
        assert!((at(70_000_000_000) / at(8_000_000_000) - 1.0).abs() < 1e-3);
        let training = of(8_000_000_000);
        let tokens = training.break_even(&only(Link::INFINIBAND), 8);
        let half = efficiency(training.compute(tokens), training.communication(&only(Link::INFINIBAND), 8).total());
        assert!((half - 0.5).abs() < 1e-12, "at the break-even half of the time is lost: {half}");
    }
}
