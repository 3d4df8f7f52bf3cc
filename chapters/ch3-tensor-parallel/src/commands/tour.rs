//! `cargo ch3` without a command: a guided tour of the chapter, in under a minute.
//!
//! `exact` has the stops about how a layer is cut and stays the same, `costs` those about what that holds and what it sends. Each stop
//! calls the functions behind one of the subcommands with small settings.

mod costs;
mod exact;

use crate::core::Core;
use anyhow::Context as _;
use candle_core::DType;
use ch1_single_gpu::tour::Guide;
use clap::Args;
use lab::flags::{BUNDLED, DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::numbers;
use lab::program::Output;
use std::io::Write;
use std::path::PathBuf;

/// What `cargo ch3` takes without a command.
#[derive(Args, Debug)]
pub(super) struct Tour {
    /// Ask for your own number at every stop, before the prediction is shown
    #[arg(long)]
    predict: bool,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "out/ch3/tour")]
    out: PathBuf,
    #[command(flatten)]
    with: WithFlags,
}

/// What the stops have in common.
struct Visit<'a> {
    guide: Guide<'a, Output>,
    core: Core,
    /// Folder of the figures.
    figures: PathBuf,
}

/// The bundled model, in the type that a stop computes in.
fn bundled(dtype: DType) -> lab::Result<Described> {
    let described = Described::from_flags(&ModelFlags::default(), &DeviceFlags { cpu: true, ..Default::default() })?;
    Ok(Described { dtype, ..described })
}

impl Tour {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = Core::choose(&self.with)?;
        let config = bundled(DType::F32)?.config;
        writeln!(out, "Chapter 3: how does tensor parallelism decompose one layer?\n")?;
        writeln!(
            out,
            "Six stops on several ranks, each a thread on a core of its own: {BUNDLED}, {} parameters,\n\
             {} layers of {} heads ({} key heads). Each predicts a number, runs the real thing, and shows both.",
            numbers::grouped(config.parameters()),
            config.layers,
            config.heads,
            config.kv_heads
        )?;
        let mut visit = Visit { guide: Guide::new(out, self.predict), core, figures: self.out.clone() };
        visit.one_block().context("stop 1, one block")?;
        visit.text().context("stop 2, text")?;
        visit.gradients().context("stop 3, gradients")?;
        visit.bytes().context("stop 4, bytes")?;
        visit.memory().context("stop 5, memory")?;
        visit.links().context("stop 6, links")?;
        visit.end()
    }
}

impl Visit<'_> {
    /// Where a figure goes.
    fn figure(&self, name: &str) -> PathBuf {
        self.figures.join(name)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let figures = self.figures.display().to_string();
        self.guide.labelled("", "")?;
        self.guide.labelled(
            "Answer",
            "How does tensor parallelism decompose one layer? Columns first, rows second: heads and columns of the feed-forward network are \
             independent until their sum, so a layer needs two reductions forward and two backward (stops 1 to 4). Weights and cache \
             fall with tp (stop 5), which is what the article's 70B model needs; the price is paid in every layer, so the link must be fast \
             (stop 6).",
        )?;
        self.guide.labelled("Figures", &format!("memory.svg and links.svg in {figures}"))?;
        self.guide.labelled("Lesson", "chapters/ch3-tensor-parallel/README.md")?;
        self.guide.labelled("Again", "cargo ch3 --predict asks for your own number at every stop")?;
        Ok(())
    }
}
