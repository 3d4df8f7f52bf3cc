//! `cargo ch2 scale`: what more ranks are worth over which link, and where the link eats the gain.
//!
//! Weak scaling: every rank gets as many tokens as one device would. A model that can be loaded is run on real ranks, once per link and
//! number of ranks, under a clock that charges links; a published one is computed from its shape.

mod figure;
pub(super) mod published;
pub(super) mod run;

use crate::core::Core;
use anyhow::Context as _;
use clap::Args;
use collective::{Algorithm, Link, Topology};
use decoder::shape::published;
use lab::compared::Unit;
use lab::flags::{BUNDLED, ClockChoice, ClusterFlags, DeviceFlags, MemoryFlags, ModelFlags, OutputFlags, WithFlags};
use lab::program::{Output, write_json};
use lab::subject::Subject;
use lab::{Error, ask};
use published::Published;
use run::{Load, Runs};
use serde::Serialize;
use std::io::Write;

/// Published models that are shown beside the one that runs: one that fits a device without its optimiser, and the recurring case.
const SHOWN: [&str; 2] = ["Llama 3 8B", "Llama 3.1 70B"];
/// Threads of this process, and models in its memory.
const MOST: usize = 256;

/// What `cargo ch2 scale` takes.
#[derive(Args, Debug)]
pub(super) struct Scale {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Ranks: 1, 2, 4, … up to this many
    #[arg(long, value_name = "RANKS", default_value_t = 16)]
    most: usize,
    /// Sequences per rank
    #[arg(long, value_name = "ROWS", default_value_t = 1)]
    rows: usize,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    seq: usize,
    /// Tokens per rank and step of the published models
    #[arg(long, value_name = "TOKENS", default_value_t = 8192)]
    tokens: u64,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// What joins the ranks.
pub(super) struct Joined {
    /// `NVLink`, or `nodes of 8`.
    pub(super) name: String,
    pub(super) topology: Topology,
}

#[derive(Serialize)]
struct Document {
    /// `H100 at 50.0 % of its roofline`.
    clock: String,
    /// What joins the ranks of the last link: `nodes of 8: NVLink within, InfiniBand between`.
    cluster: String,
    runs: Option<Runs>,
    published: Vec<Published>,
}

impl Scale {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = &Core::choose(&self.with)?;
        let plot = self.output.plot()?;
        let joined = self.check()?;
        let subject = Subject::of(&self.model, &self.device)?;
        let guess = match self.output.predict {
            true => ask::number(QUESTION)?,
            false => None,
        };
        let (runs, models) = match subject {
            Subject::Loaded(described) => {
                let options = self.cluster.options(described.dtype, &MemoryFlags::default())?;
                let load = Load { most: self.most, rows: self.rows, seq: self.seq };
                let name = self.model.model.as_deref().unwrap_or(BUNDLED);
                let runs = Runs::of(core, (&described, name), &joined, load, &options)?;
                let shown = self.model.model.is_none().then(|| SHOWN.map(published));
                (Some(runs), shown.into_iter().flatten().collect::<Result<Vec<_>, _>>()?)
            }
            Subject::Published(model) => (None, vec![*model]),
        };
        let gpu = (self.cluster.gpu.as_str(), self.cluster.efficiency);
        let of = |model| Published::of(core, model, gpu, self.tokens, &joined);
        let published = models.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let clock = self.cluster.clock_text();
        let document = Document { clock, cluster: described(joined.last()), runs, published };
        if let Some(path) = plot {
            document.draw(path).context("drawing the plot")?;
        }
        if self.output.json {
            return write_json(out, &document);
        }
        document.write(out)?;
        let answer = document.published.first().and_then(|published| published.break_even("InfiniBand"));
        if let (Some(guess), Some(tokens)) = (guess, answer) {
            writeln!(out, "\n{}", ask::beside(guess, tokens, Unit::Count))?;
        }
        if let Some(path) = plot {
            writeln!(out, "\nfigure: {}", path.display())?;
        }
        Ok(())
    }

    /// Every link alone, then the cluster of the flags.
    fn check(&self) -> Result<Vec<Joined>, Error> {
        let flag =
            |flag, found: String, expected: &str| Err(Error::Flag { flag, found, expected: expected.to_owned() });
        for (name, size, most) in
            [("--most", self.most, MOST), ("--rows", self.rows, 1 << 16), ("--seq", self.seq, 1 << 20)]
        {
            if !(1..=most).contains(&size) {
                return flag(name, size.to_string(), &format!("from 1 to {most}"));
            }
        }
        if self.tokens == 0 {
            return flag("--tokens", "0".to_owned(), "at least 1");
        }
        // Written so that NaN is refused.
        if !(self.cluster.efficiency > 0.0 && self.cluster.efficiency <= 1.0) {
            return flag("--efficiency", self.cluster.efficiency.to_string(), "above 0, at most 1");
        }
        if self.cluster.algorithm != Algorithm::Ring {
            let found = self.cluster.algorithm.to_string();
            return flag("--algorithm", found, "ring: the time of a step is predicted for this one");
        }
        if self.cluster.clock == ClockChoice::Wall {
            let expected =
                "roofline or cpu: in real time the ranks of this program are joined by memory, not by a link";
            return flag("--clock", "wall".to_owned(), expected);
        }
        let cluster = self.cluster.topology()?;
        if cluster.ranks_per_node == 0 {
            return flag("--ranks-per-node", "0".to_owned(), "at least 1");
        }
        let name = format!("nodes of {}", cluster.ranks_per_node);
        Ok(alone().into_iter().chain([Joined { name, topology: cluster }]).collect())
    }
}

const QUESTION: &str = "With how many tokens per rank does an 8B model, in 16 bits on H100 joined by InfiniBand, compute as long as it \
                        communicates?";

/// Every link alone.
pub(super) fn alone() -> [Joined; 4] {
    Link::PRESETS.map(|link| Joined { name: link.name.to_owned(), topology: crate::scaling::only(link) })
}

/// What the cluster of the flags is made of.
fn described(cluster: Option<&Joined>) -> String {
    cluster.map_or_else(String::new, |Joined { name, topology: Topology { within, between, .. } }| {
        format!("{name}: {} within a node, {} between nodes", within.name, between.name)
    })
}

impl Document {
    fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        if let Some(runs) = &self.runs {
            runs.write(&self.clock, out)?;
        }
        for (index, published) in self.published.iter().enumerate() {
            if index > 0 || self.runs.is_some() {
                writeln!(out)?;
            }
            published.write(out)?;
        }
        if !self.published.is_empty() {
            writeln!(out, "\n{}", published::NOTICE)?;
        }
        writeln!(out, "\n{}.", self.cluster)?;
        Ok(())
    }
}
