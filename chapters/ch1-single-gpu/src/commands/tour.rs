//! `cargo ch1` without a command: a guided tour of the chapter with the bundled model, in under a minute.
//!
//! `computing` has the stops about what one device computes, `limits` those about what it cannot hold and cannot finish. Each stop
//! calls the functions behind one of the other subcommands with small settings; nothing is computed in a way of its own.

mod computing;
mod limits;

use crate::core::Core;
use crate::tour::Guide;
use anyhow::Context as _;
use clap::Args;
use decoder::Decoder;
use decoder::shape::ModelShape;
use decoder::split::Split;
use lab::flags::{BUNDLED, DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::numbers;
use lab::program::{Output, in_pool};
use std::io::Write;
use std::path::PathBuf;

/// What `cargo ch1` takes without a command.
#[derive(Args, Debug)]
pub(super) struct Tour {
    /// Ask for your own number at every stop, before the prediction is shown
    #[arg(long)]
    predict: bool,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "out/ch1/tour")]
    out: PathBuf,
    #[command(flatten)]
    with: WithFlags,
}

/// What the stops have in common.
struct Visit<'a> {
    guide: Guide<'a, Output>,
    core: Core,
    described: Described,
    model: Decoder,
    shape: ModelShape,
    /// Folder of the figures.
    figures: PathBuf,
}

impl Tour {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = Core::choose(&self.with)?;
        let described =
            Described::from_flags(&ModelFlags::default(), &DeviceFlags { cpu: true, ..Default::default() })?;
        let shape = ModelShape::from_config(&described.config)?;
        let model = described.load(&Split::whole()).context("loading the bundled model")?;
        let threads = lab::startup::threads()?;
        writeln!(out, "Chapter 1: why must a model be distributed?\n")?;
        writeln!(
            out,
            "Seven stops on one device: {BUNDLED}, {} parameters, on {threads} of this machine's cores.\n\
             Each predicts a number from a formula, runs the real thing, and shows both.",
            numbers::grouped(shape.parameters()?.total()),
        )?;
        let mut visit =
            Visit { guide: Guide::new(out, self.predict), core, described, model, shape, figures: self.out.clone() };
        in_pool(threads, || visit.stops())??;
        visit.end()
    }
}

impl Visit<'_> {
    fn stops(&mut self) -> anyhow::Result<()> {
        self.one_token_after_another().context("stop 1, generation")?;
        let roofline = self.one_product().context("stop 2, X · W = Y")?;
        self.one_layer().context("stop 3, a layer")?;
        self.the_cache().context("stop 4, the KV cache")?;
        self.memory().context("stop 5, memory")?;
        self.training_time(&roofline).context("stop 6, throughput")?;
        self.the_wall().context("stop 7, the wall")
    }

    /// Where a figure goes.
    fn figure(&self, name: &str) -> PathBuf {
        self.figures.join(name)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let figures = self.figures.display().to_string();
        self.guide.labelled("", "")?;
        self.guide.labelled(
            "Answer",
            "Why must a model be distributed? One device cannot hold it (stops 5 and 7), and one device cannot \
             finish (stop 6). What can be divided, and what does dividing cost? That is the rest of the course.",
        )?;
        self.guide.labelled("Figures", &format!("xw.svg, kv.svg, memory.svg and throughput.svg in {figures}"))?;
        self.guide.labelled("Lesson", "chapters/ch1-single-gpu/README.md")?;
        self.guide.labelled("Again", "cargo ch1 --predict asks for your own number at every stop")?;
        Ok(())
    }
}
