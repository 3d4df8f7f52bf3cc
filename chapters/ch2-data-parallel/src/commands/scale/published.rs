//! A published model: the same formulas, from its shape and the data sheets of device and links.

use super::{Joined, Scale};
use crate::scaling::{Training, efficiency};
use decoder::shape::PublishedModel;
use decoder::shape::hardware::{Hardware, Precision};
use lab::program::Output;
use lab::{Table, numbers};
use serde::Serialize;
use std::io::Write;

/// Numbers of ranks that efficiency is shown for.
const RANKS: [usize; 4] = [2, 8, 64, 512];
/// For which the break-even is shown.
const AT: usize = 64;
/// Bytes of a gradient's element in bf16.
const WIDTH: usize = 2;

pub(super) const NOTICE: &str = "\
Break-even: tokens per rank with which computing takes as long as communicating; half of every rank is lost there. Bytes and FLOPs both\n\
grow with the parameters, so it is the same for every dense model: about 2/3 of the device's FLOP/s over the link's bytes/s in 16 bits.\n\
Nothing overlaps here: a step computes, then communicates. Doing both at once is a subject of chapter 6.";

/// A published model on a device, over some links.
#[derive(Serialize)]
pub(super) struct Published {
    pub(super) model: String,
    pub(super) gpu: String,
    /// FLOP per second that the device really does.
    rate: f64,
    /// Per rank and step.
    pub(super) tokens: u64,
    /// Seconds of forward and backward.
    compute: f64,
    gradient_bytes: u64,
    pub(super) links: Vec<Row>,
}

/// One link.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) link: String,
    /// Number of ranks, seconds of the all-reduce, efficiency.
    pub(super) scaling: Vec<Point>,
    /// Tokens per rank with which a step of 64 ranks computes as long as it communicates.
    pub(super) break_even: f64,
}

/// One number of ranks.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Point {
    pub(super) ranks: usize,
    all_reduce: f64,
    pub(super) efficiency: f64,
}

impl Scale {
    pub(super) fn published(&self, model: &PublishedModel, joined: &[Joined]) -> anyhow::Result<Published> {
        let gpu = Hardware::named(&self.cluster.gpu)?;
        let precision = [Precision::Bf16, Precision::F16].into_iter().find(|one| gpu.peaks.contains_key(one));
        let rate = gpu.peak(precision.unwrap_or(Precision::Bf16))? as f64 * self.cluster.efficiency;
        let training = Training {
            parameters: model.shape.parameters()?.total(),
            active: model.shape.active_parameters()?.total(),
            width: WIDTH,
            rate,
        };
        let compute = training.compute(self.tokens as f64);
        let row = |Joined { name, topology }: &Joined| Row {
            link: name.clone(),
            scaling: std::iter::successors(Some(1), |ranks| Some(ranks * 2))
                .take_while(|&ranks| ranks <= RANKS[RANKS.len() - 1])
                .map(|ranks| {
                    let all_reduce = training.communication(topology, ranks).total();
                    Point { ranks, all_reduce, efficiency: efficiency(compute, all_reduce) }
                })
                .collect(),
            break_even: training.break_even(topology, AT),
        };
        Ok(Published {
            model: model.name.clone(),
            gpu: gpu.name,
            rate,
            tokens: self.tokens,
            compute,
            gradient_bytes: training.parameters * WIDTH as u64,
            links: joined.iter().map(row).collect(),
        })
    }
}

impl Published {
    /// The break-even over one link.
    pub(super) fn break_even(&self, link: &str) -> Option<f64> {
        self.links.iter().find(|row| row.link == link).map(|row| row.break_even)
    }

    pub(super) fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        let Self { model, gpu, rate, tokens, compute, gradient_bytes, .. } = self;
        writeln!(
            out,
            "{model} on {gpu} at {}: {} tokens take {}, and {} of gradients in 16 bits are summed\n",
            numbers::flop_rate(*rate),
            numbers::grouped(*tokens),
            numbers::seconds(*compute),
            format_args!("{} GB", numbers::plain(*gradient_bytes as f64 / 1e9)),
        )?;
        let efficiencies = RANKS.map(|ranks| format!("{ranks} ranks"));
        let header = ["link".to_owned(), "all-reduce of 8".to_owned()].into_iter().chain(efficiencies);
        let mut table = Table::new(header.chain([format!("break-even at {AT}")]));
        for row in &self.links {
            let at = |ranks| row.scaling.iter().find(|point| point.ranks == ranks);
            let cells =
                RANKS.map(|ranks| at(ranks).map_or_else(String::new, |point| numbers::percent(point.efficiency)));
            let seconds = at(8).map_or_else(String::new, |point| numbers::seconds(point.all_reduce));
            let even = format!("{} tokens", numbers::count(row.break_even));
            table.push([row.link.clone(), seconds].into_iter().chain(cells).chain([even]));
        }
        writeln!(out, "{table}")?;
        Ok(())
    }
}
