//! `cargo ch1 xw`: X · W = Y by itself, against this machine's measured roofline.

use crate::core::Core;
use crate::xw::{Matrix, Measured, Product};
use anyhow::Context as _;
use candle_core::DType;
use clap::Args;
use decoder::shape::hardware::{Hardware, Precision};
use lab::flags::{DtypeChoice, OutputFlags, WithFlags};
use lab::plot::{Axis, Chart};
use lab::program::{Output, in_pool};
use lab::roofline::Roofline;
use lab::{Table, ask, compared, numbers};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// How long each number of rows is measured.
const BUDGET: Duration = Duration::from_millis(200);

/// What `cargo ch1 xw` takes.
#[derive(Args, Debug)]
pub(super) struct Xw {
    /// Rows and columns of a square W
    #[arg(long, value_name = "SIZE", default_value_t = 2048)]
    hidden: u64,
    /// Columns of X, rows of W [default: --hidden]
    #[arg(long = "in", value_name = "SIZE")]
    inputs: Option<u64>,
    /// Columns of W and of Y [default: --hidden]
    #[arg(long = "out", value_name = "SIZE")]
    outputs: Option<u64>,
    /// Rows of X: one per token
    #[arg(long, value_name = "ROWS", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])]
    rows: Vec<u64>,
    /// Type of W; X, Y and the sums are f32 or wider
    #[arg(long, value_name = "TYPE", ignore_case = true, default_value = "f32")]
    dtype: DtypeChoice,
    /// A published device to set beside this machine
    #[arg(long, value_name = "NAME", default_value = "H100")]
    gpu: String,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// One number of rows, predicted and measured.
#[derive(Debug, Serialize)]
struct Row {
    rows: u64,
    flops: u64,
    counted_flops: u64,
    bytes: u64,
    counted_bytes: u64,
    intensity: f64,
    predicted_seconds: f64,
    seconds: f64,
    flops_per_second: f64,
    share_of_roof: f64,
    bound: lab::roofline::Bound,
}

#[derive(Debug, Serialize)]
struct Document {
    inputs: u64,
    outputs: u64,
    dtype: String,
    roofline: Roofline,
    rows_at_ridge: Option<f64>,
    gpu: String,
    gpu_rows_at_ridge: Option<f64>,
    rows: Vec<Row>,
}

impl Xw {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let core = Core::choose(&self.with)?;
        let (inputs, outputs) = (self.inputs.unwrap_or(self.hidden), self.outputs.unwrap_or(self.hidden));
        let dtype = dtype(self.dtype);
        // Everything is checked before anything is measured.
        for &rows in &self.rows {
            Product::new(rows, inputs, outputs, dtype)?;
        }
        let gpu = Hardware::named(&self.gpu)?;
        let gpu_roof = Roofline::of(&gpu, precision(&gpu))?;
        let guess = match self.output.predict {
            true => ask::number("From how many rows on does the arithmetic take longer than reading W, here?")?,
            false => None,
        };

        let (roofline, measured) = in_pool(lab::startup::threads()?, || measure(&self.rows, inputs, outputs, dtype))??;
        let product = Product::new(1, inputs, outputs, dtype)?;
        let gpu_product = Product::new(1, inputs, outputs, DType::F16)?.in_one_type();
        let document = Document {
            inputs,
            outputs,
            dtype: dtype.as_str().to_owned(),
            roofline,
            rows_at_ridge: (core.rows_at_ridge)(&product, &roofline),
            gpu: format!("{} ({})", gpu.name, precision(&gpu)),
            gpu_rows_at_ridge: (core.rows_at_ridge)(&gpu_product, &gpu_roof),
            rows: measured.iter().map(|measured| row(&core, measured, &roofline)).collect(),
        };
        if let Some(path) = plot {
            draw(&document, path).context("drawing the plot")?;
        }
        if self.output.json {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            writeln!(out)?;
        } else {
            show(&document, out)?;
            if let (Some(guess), Some(rows)) = (guess, document.rows_at_ridge) {
                writeln!(out, "{}", ask::beside(guess, rows, compared::Unit::Number))?;
            }
        }
        Ok(())
    }
}

fn dtype(choice: DtypeChoice) -> DType {
    lab::flags::DeviceFlags { dtype: Some(choice), ..Default::default() }.dtype(DType::F32)
}

/// The 16-bit type that the device is made for, else f32.
fn precision(gpu: &Hardware) -> Precision {
    let known = [Precision::Bf16, Precision::F16].into_iter().find(|precision| gpu.peaks.contains_key(precision));
    known.unwrap_or(Precision::F32)
}

/// The roofline is measured before and after: a machine that others use, too, is not always equally fast.
fn measure(rows: &[u64], inputs: u64, outputs: u64, dtype: DType) -> anyhow::Result<(Roofline, Vec<Measured>)> {
    let before = Roofline::measure_cpu()?;
    let matrix = Matrix::new(inputs, outputs, dtype)?;
    let measured = rows.iter().map(|&rows| matrix.measure(rows, BUDGET)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok((before.max(Roofline::measure_cpu()?), measured))
}

fn row(core: &Core, measured: &Measured, roof: &Roofline) -> Row {
    let (cost, counted) = ((core.product_cost)(&measured.product), measured.counted);
    let intensity = cost.intensity();
    Row {
        rows: measured.product.rows(),
        flops: cost.flops,
        counted_flops: counted.flops,
        bytes: cost.bytes,
        counted_bytes: counted.bytes,
        intensity,
        predicted_seconds: roof.seconds(cost.flops as f64, cost.bytes as f64),
        seconds: measured.timing.fastest,
        flops_per_second: measured.rate(),
        share_of_roof: measured.rate() / roof.attainable(intensity),
        bound: roof.bound(intensity),
    }
}

fn show(document: &Document, out: &mut Output) -> anyhow::Result<()> {
    let Document { inputs, outputs, dtype, roofline, rows, .. } = document;
    writeln!(out, "X [rows, {inputs}] · W [{inputs}, {outputs}] = Y [rows, {outputs}], W in {dtype}\n")?;
    writeln!(
        out,
        "this machine: reads {}, computes {}: the ridge is at {} FLOP/byte\n",
        numbers::bandwidth(roofline.bandwidth),
        numbers::flop_rate(roofline.peak),
        numbers::plain(roofline.ridge())
    )?;
    let header = ["rows", "FLOP", "bytes", "FLOP/byte", "bound", "at least", "fastest", "achieved", "of the roof"];
    let mut table = Table::new(header);
    for row in rows {
        table.push([
            row.rows.to_string(),
            numbers::flops(row.flops as f64),
            ledger::Bytes(row.bytes).to_string(),
            numbers::plain(row.intensity),
            row.bound.to_string(),
            numbers::seconds(row.predicted_seconds),
            numbers::seconds(row.seconds),
            numbers::flop_rate(row.flops_per_second),
            numbers::percent(row.share_of_roof),
        ]);
    }
    writeln!(out, "{table}\n")?;
    let equal = rows.iter().all(|row| row.flops == row.counted_flops && row.bytes == row.counted_bytes);
    let verdict = if equal { "✓ equal to those that" } else { "✗ not equal to those that" };
    writeln!(out, "FLOPs and bytes: {verdict} the decoder's operation reports")?;
    let rows_at = |rows: Option<f64>| match rows {
        Some(rows) => format!("from {} rows on", numbers::count(rows.ceil())),
        None => "at no number of rows".to_owned(),
    };
    writeln!(out, "arithmetic takes longer than reading here {}", rows_at(document.rows_at_ridge))?;
    writeln!(out, "and on one {} in 16 bits {}", document.gpu, rows_at(document.gpu_rows_at_ridge))?;
    Ok(())
}

/// Achieved FLOP/s over intensity, under the roof.
fn draw(document: &Document, path: &Path) -> lab::Result<()> {
    let Document { inputs, outputs, dtype, roofline, rows, .. } = document;
    let points = rows.iter().map(|row| (row.intensity, row.flops_per_second)).collect::<Vec<_>>();
    under_the_roof(&format!("W [{inputs}, {outputs}] {dtype}"), roofline, &points).write(path)
}

/// The roof, and points (FLOP/byte, FLOP/s) under it.
pub fn under_the_roof(weight: &str, roof: &Roofline, points: &[(f64, f64)]) -> Chart {
    let ridge = roof.ridge();
    let (low, high) = points.iter().fold((ridge, ridge), |(low, high), (i, _)| (low.min(*i), high.max(*i)));
    let (low, high) = (low / 1.5, high * 1.5);
    Chart::new(format!("X · W = Y, {weight}"), Axis::log("intensity (FLOP/byte)"), Axis::log("achieved (FLOP/s)"))
        .line("roof of this machine", [low, ridge, high].map(|intensity| (intensity, roof.attainable(intensity))))
        .points("measured, 1 row (left) to many", points.iter().copied())
}
