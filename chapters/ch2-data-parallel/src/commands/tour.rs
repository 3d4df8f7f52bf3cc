//! `cargo ch2` without a command: a guided tour of the chapter, in under a minute.
//!
//! `dividing` has the stops about what is divided and how it becomes whole again, `limits` those about what that costs and what it does
//! not help against; `replicas` has what they run on ranks. Each stop calls the functions behind one of the subcommands with small settings.

mod dividing;
mod limits;
mod replicas;

pub use replicas::{Trained, apart, mean_of_means, rank_losses, replica_gradients, trained};

use crate::core::Core;
use anyhow::Context as _;
use candle_core::DType;
use ch1_single_gpu::tour::Guide;
use clap::Args;
use decoder::shape::ModelShape;
use lab::flags::{BUNDLED, DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::numbers;
use lab::program::Output;
use std::io::Write;
use std::path::PathBuf;

/// What `cargo ch2` takes without a command.
#[derive(Args, Debug)]
pub(super) struct Tour {
    /// Ask for your own number at every stop, before the prediction is shown
    #[arg(long)]
    predict: bool,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "out/ch2/tour")]
    out: PathBuf,
    #[command(flatten)]
    with: WithFlags,
}

/// What the stops have in common.
struct Visit<'a> {
    guide: Guide<'a, Output>,
    core: &'a Core,
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
        let core = &Core::choose(&self.with)?;
        let shape = ModelShape::from_config(&bundled(DType::F32)?.config)?;
        writeln!(out, "Chapter 2: how are data and parameters partitioned?\n")?;
        writeln!(
            out,
            "Six stops on several ranks, each a thread on a core of its own: {BUNDLED}, {} parameters.\n\
             Each predicts a number from a formula, runs the real thing, and shows both.",
            numbers::grouped(shape.parameters()?.total()),
        )?;
        let mut visit = Visit { guide: Guide::new(out, self.predict), core, figures: self.out.clone() };
        visit.one_product().context("stop 1, one product")?;
        visit.rows_of_a_batch().context("stop 2, the rows of a batch")?;
        visit.a_training_run().context("stop 3, a training run")?;
        visit.bytes().context("stop 4, bytes")?;
        visit.the_link().context("stop 5, the link")?;
        visit.the_wall().context("stop 6, the wall")?;
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
            "How are data and parameters partitioned? X by rows is data parallelism: simple, regular, exact, one all-reduce of \
             the gradients per step (stops 1 to 4). It pays while the link keeps up with the arithmetic (stop 5). Where one \
             device does not hold the model, W must be divided (stop 6): within its layers in chapter 3, between them in 4.",
        )?;
        self.guide.labelled("Figures", &format!("partition.svg, scale.svg and memory.svg in {figures}"))?;
        self.guide.labelled("Lesson", "chapters/ch2-data-parallel/README.md")?;
        self.guide.labelled("Again", "cargo ch2 --predict asks for your own number at every stop")?;
        Ok(())
    }
}
