//! A model that is loaded: one step on 1, 2, 4, … real ranks, over each link.

use super::Joined;
use crate::core::Core;
use crate::scaling::{Cost, Measured, TOLERANCE, made_up, measure};
use anyhow::Context as _;
use ch1_single_gpu::memory::Work;
use collective::{ClockKind, Options};
use lab::compared::Unit;
use lab::loaded::Described;
use lab::program::Output;
use lab::progress::Progress;
use lab::{Compared, Comparison, Error, Table, numbers};
use ledger::Bytes;
use serde::Serialize;
use std::io::Write;

/// Under the CPU clock what a rank does between two rounds is time, too, and every rank waits for the slowest in each of them.
const CPU_TOLERANCE: f64 = 0.3;

/// More than this is not run.
const MOST_BYTES: u64 = 16 << 30;

/// All runs of a model.
#[derive(Serialize)]
pub(in crate::commands) struct Runs {
    pub(in crate::commands) model: String,
    pub(in crate::commands) dtype: String,
    /// Per rank and step.
    pub(in crate::commands) tokens: usize,
    /// All-reduces of a step: the loss and each parameter.
    pub(in crate::commands) calls: u64,
    pub(in crate::commands) rows: Vec<Row>,
    tolerance: f64,
}

/// One number of ranks over one link.
#[derive(Serialize)]
pub(in crate::commands) struct Row {
    pub(in crate::commands) link: String,
    pub(in crate::commands) ranks: usize,
    /// Seconds of forward and backward of the slowest rank, by the clock.
    pub(in crate::commands) compute: f64,
    pub(in crate::commands) predicted_latency: f64,
    pub(in crate::commands) predicted_transfer: f64,
    pub(in crate::commands) predicted_step: f64,
    pub(in crate::commands) step: f64,
    /// Time of one rank alone over the time of this step.
    pub(in crate::commands) efficiency: f64,
    pub(in crate::commands) predicted_efficiency: f64,
    /// By the rank that sends most.
    pub(in crate::commands) predicted_sent: u64,
    pub(in crate::commands) sent: u64,
    /// Whether every rank sent what it had to, in as many calls.
    pub(in crate::commands) sent_as_predicted: bool,
}

/// How much each rank computes, and on how many ranks.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Load {
    /// Ranks: 1, 2, 4, … up to this many.
    pub(in crate::commands) most: usize,
    /// Sequences of each rank.
    pub(in crate::commands) rows: usize,
    /// Tokens of each.
    pub(in crate::commands) seq: usize,
}

impl Load {
    /// Refuses what would not fit on this machine.
    fn check(&self, described: &Described) -> anyhow::Result<()> {
        let work = Work::Training { batch: self.rows, seq: self.seq };
        let each = work.predicted(&described.config, described.dtype)?.device;
        if each.saturating_mul(self.most as u64) > MOST_BYTES {
            let found = format!("{} ranks that hold {} each", self.most, Bytes(each));
            let expected = format!("at most {} in all; take smaller --most, --rows or --seq", Bytes(MOST_BYTES));
            return Err(Error::Flag { flag: "--most", found, expected }.into());
        }
        Ok(())
    }
}

impl Runs {
    /// Every number of ranks over each link; `options` but for its topology.
    pub(in crate::commands) fn of(
        core: &Core,
        (described, name): (&Described, &str),
        joined: &[Joined],
        load: Load,
        options: &Options,
    ) -> anyhow::Result<Self> {
        load.check(described)?;
        let counts: Vec<usize> =
            std::iter::successors(Some(1), |ranks| Some(ranks * 2)).take_while(|&ranks| ranks <= load.most).collect();
        let progress = Progress::bar("running", (joined.len() * counts.len()) as u64);
        let (mut rows, mut calls) = (Vec::new(), 0);
        for Joined { name, topology } in joined {
            let options = Options { topology: *topology, ..options.clone() };
            let mut alone = None;
            for &ranks in &counts {
                progress.say(format!("{name}, {ranks} ranks"));
                let batch = made_up(described, ranks * load.rows, load.seq)?;
                let measured = measure(core, described, &batch, ranks, &options)
                    .with_context(|| format!("a step on {ranks} ranks joined by {name}"))?;
                progress.advance(1);
                let alone = *alone.get_or_insert(measured.step);
                calls = measured.traffic.first().map_or(0, |(predicted, _)| predicted.calls);
                rows.push(Row::of(name, ranks, alone, &measured));
            }
        }
        Ok(Self {
            model: name.to_owned(),
            dtype: described.dtype.as_str().to_owned(),
            tokens: load.rows * load.seq,
            calls,
            rows,
            tolerance: if options.clock == ClockKind::Cpu { CPU_TOLERANCE } else { TOLERANCE },
        })
    }
}

impl Row {
    fn of(link: &str, ranks: usize, alone: f64, measured: &Measured) -> Self {
        let Measured { compute, step, predicted: Cost { latency, transfer }, .. } = *measured;
        let (predicted_sent, sent) = measured.most_sent();
        Self {
            link: link.to_owned(),
            ranks,
            compute,
            predicted_latency: latency,
            predicted_transfer: transfer,
            predicted_step: compute + latency + transfer,
            step,
            efficiency: alone / step,
            predicted_efficiency: alone / (compute + latency + transfer),
            predicted_sent,
            sent,
            sent_as_predicted: measured.sent_as_predicted(),
        }
    }
}

impl Runs {
    pub(in crate::commands) fn write(&self, clock: &str, out: &mut Output) -> anyhow::Result<()> {
        let Self { model, dtype, tokens, calls, .. } = self;
        writeln!(out, "{model}, {dtype}, {tokens} tokens per rank and step, ring, time: {clock}\n")?;
        writeln!(out, "{}\n", self.table())?;
        writeln!(out, "{}\n", self.comparison())?;
        writeln!(
            out,
            "A step synchronises with {calls} all-reduces, one per parameter and one for the loss, each of 2(p - 1) rounds. What a rank\n\
             sends hardly grows with p; the rounds do. Efficiency: what one rank alone takes over what the step takes; worth: that,\n\
             times the ranks."
        )?;
        if clock.starts_with("CPU") {
            writeln!(
                out,
                "This is the CPU time of this machine's threads, joined by links of others: nothing is said about GPUs."
            )?;
        }
        Ok(())
    }

    pub(in crate::commands) fn table(&self) -> Table {
        let header = ["link", "ranks", "compute", "latency", "bytes", "predicted", "clock", "efficiency", "worth"];
        let mut table = Table::new(header);
        let mut last = "";
        for row in &self.rows {
            let link = if row.link == last { "" } else { &row.link };
            last = &row.link;
            table.push([
                link.to_owned(),
                row.ranks.to_string(),
                numbers::seconds(row.compute),
                numbers::seconds(row.predicted_latency),
                numbers::seconds(row.predicted_transfer),
                numbers::seconds(row.predicted_step),
                numbers::seconds(row.step),
                numbers::percent(row.efficiency),
                numbers::plain(row.efficiency * row.ranks as f64),
            ]);
        }
        table
    }

    /// Bytes by number of ranks (no link changes them), and the step that is furthest from its prediction.
    pub(in crate::commands) fn comparison(&self) -> Comparison {
        let first = self.rows.first().map_or("", |row| &row.link);
        let mut comparison = Comparison::default();
        for row in self.rows.iter().filter(|row| row.link == first && row.ranks > 1) {
            let all = self.rows.iter().filter(|other| other.ranks == row.ranks).all(|other| other.sent_as_predicted);
            let what = format!("sent by each, {} ranks{}", row.ranks, if all { "" } else { " (not by all)" });
            comparison.push(Compared::exact(what, row.predicted_sent, Some(row.sent), Unit::Bytes));
        }
        let apart = |row: &&Row| (row.step / row.predicted_step - 1.0).abs();
        if let Some(row) = self.rows.iter().max_by(|a, b| apart(a).total_cmp(&apart(b))) {
            let what = format!("worst step: {}, {}", row.ranks, row.link);
            comparison.push(Compared::within(what, row.predicted_step, Some(row.step), self.tolerance, Unit::Seconds));
        }
        comparison
    }
}
