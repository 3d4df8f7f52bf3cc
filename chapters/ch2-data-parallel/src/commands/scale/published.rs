//! A published model: the same formulas, from its shape and the data sheets of device and links.

use super::Joined;
use crate::core::Core;
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

pub(in crate::commands) const NOTICE: &str = "\
Break-even: tokens per rank with which computing takes as long as communicating; half of every rank is lost there. Bytes and FLOPs both\n\
grow with the parameters, so it is the same for every dense model: about 2/3 of the device's FLOP/s over the link's bytes/s in 16 bits.\n\
Nothing overlaps here: a step computes, then communicates. Doing both at once is a subject of chapter 6.";

/// A published model on a device, over some links.
#[derive(Serialize)]
pub(in crate::commands) struct Published {
    pub(in crate::commands) model: String,
    pub(in crate::commands) gpu: String,
    /// FLOP per second that the device really does.
    rate: f64,
    /// Per rank and step.
    pub(in crate::commands) tokens: u64,
    /// Seconds of forward and backward.
    compute: f64,
    gradient_bytes: u64,
    pub(in crate::commands) links: Vec<Row>,
}

/// One link.
#[derive(Serialize)]
pub(in crate::commands) struct Row {
    pub(in crate::commands) link: String,
    /// Number of ranks, seconds of the all-reduce, efficiency.
    pub(in crate::commands) scaling: Vec<Point>,
    /// Tokens per rank with which a step of 64 ranks computes as long as it communicates.
    pub(in crate::commands) break_even: f64,
}

/// One number of ranks.
#[derive(Clone, Copy, Serialize)]
pub(in crate::commands) struct Point {
    pub(in crate::commands) ranks: usize,
    all_reduce: f64,
    pub(in crate::commands) efficiency: f64,
}

impl Published {
    /// `tokens` per rank and step on a `gpu` that reaches this share of its peak.
    pub(in crate::commands) fn of(
        core: &Core,
        model: &PublishedModel,
        (gpu, reached): (&str, f64),
        tokens: u64,
        joined: &[Joined],
    ) -> decoder::Result<Self> {
        let gpu = Hardware::named(gpu)?;
        let precision = [Precision::Bf16, Precision::F16].into_iter().find(|one| gpu.peaks.contains_key(one));
        let rate = gpu.peak(precision.unwrap_or(Precision::Bf16))? as f64 * reached;
        let training = Training {
            parameters: model.shape.parameters()?.total(),
            active: model.shape.active_parameters()?.total(),
            width: WIDTH,
            rate,
            all_reduce: core.all_reduce,
        };
        let compute = training.compute(tokens as f64);
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
        Ok(Self {
            model: model.name.clone(),
            gpu: gpu.name,
            rate,
            tokens,
            compute,
            gradient_bytes: training.parameters * WIDTH as u64,
            links: joined.iter().map(row).collect(),
        })
    }
}

impl Published {
    /// The break-even over one link.
    pub(in crate::commands) fn break_even(&self, link: &str) -> Option<f64> {
        self.links.iter().find(|row| row.link == link).map(|row| row.break_even)
    }

    /// What a step computes, and what it must sum.
    pub(in crate::commands) fn text(&self) -> String {
        let Self { model, gpu, rate, tokens, compute, gradient_bytes, .. } = self;
        format!(
            "{model} on {gpu} at {}: {} tokens take {}, and {} of gradients in 16 bits are summed",
            numbers::flop_rate(*rate),
            numbers::grouped(*tokens),
            numbers::seconds(*compute),
            format_args!("{} GB", numbers::plain(*gradient_bytes as f64 / 1e9)),
        )
    }

    pub(in crate::commands) fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        writeln!(out, "{}\n\n{}", self.text(), self.table())?;
        Ok(())
    }

    /// Efficiency by link and number of ranks.
    pub(in crate::commands) fn table(&self) -> Table {
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
        table
    }
}
