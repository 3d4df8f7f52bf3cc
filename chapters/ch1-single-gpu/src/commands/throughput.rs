//! `cargo ch1 throughput`: FLOPs of training published models, and how long they take on one device.

use crate::core::Core;
use crate::throughput::{DAY, MONTH, Training, rate};
use anyhow::Context as _;
use clap::Args;
use decoder::Error;
use decoder::shape::hardware::{Hardware, Precision};
use decoder::shape::{published, published_models};
use lab::flags::{DtypeChoice, OutputFlags, WithFlags};
use lab::plot::{Axis, Bars};
use lab::program::{Output, in_pool};
use lab::roofline::Roofline;
use lab::{Table, ask, compared, numbers};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Shown when no model is named: from one that a laptop runs to the largest.
const SHOWN: [&str; 9] = [
    "SmolLM2 135M",
    "SmolLM2 1.7B",
    "Llama 2 7B",
    "Llama 2 70B",
    "Llama 3.1 70B",
    "GPT-3 175B",
    "MT-NLG 530B",
    "DeepSeek-V3",
    "Llama 3.1 405B",
];

/// What `cargo ch1 throughput` takes.
#[derive(Args, Debug)]
pub(super) struct Throughput {
    /// Published model; may be given several times [default: a choice of them]
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,
    /// Tokens to train on [default: what is published]
    #[arg(long, value_name = "TOKENS")]
    tokens: Option<u64>,
    /// Published device
    #[arg(long, value_name = "NAME", default_value = "H100")]
    gpu: String,
    /// Type of the operands
    #[arg(long, value_name = "TYPE", ignore_case = true, default_value = "bf16")]
    dtype: DtypeChoice,
    /// Share of the device's peak that the training reaches; large runs report 0.3 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = 0.4, allow_negative_numbers = true)]
    utilisation: f64,
    /// Tokens of one sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 4096)]
    context: u64,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Serialize)]
struct Row {
    model: String,
    #[serde(flatten)]
    training: Training,
    days_on_one_device: f64,
    devices_for_a_month: f64,
    days_on_this_machine: f64,
}

#[derive(Debug, Serialize)]
struct Document {
    gpu: String,
    precision: String,
    peak: u64,
    utilisation: f64,
    this_machine: f64,
    rows: Vec<Row>,
}

impl Throughput {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let core = Core::choose(&self.with)?;
        let gpu = Hardware::named(&self.gpu)?;
        let precision = precision(self.dtype);
        let rate = rate(&gpu, precision, self.utilisation)?;
        let trainings = self.trainings()?;
        let guess = match (self.output.predict, trainings.last()) {
            (true, Some((model, _))) => {
                ask::number(&format!("How many years does training {model} take on one {}?", gpu.name))?
            }
            _ => None,
        };
        let this_machine = in_pool(lab::startup::threads()?, Roofline::measure_cpu)??.peak;
        let rows = trainings.into_iter().map(|(model, training)| Row {
            model,
            days_on_one_device: training.seconds(rate) / DAY,
            devices_for_a_month: (core.devices_for)(&training, MONTH, rate),
            days_on_this_machine: training.seconds(this_machine) / DAY,
            training,
        });
        let document = Document {
            peak: gpu.peak(precision)?,
            gpu: gpu.name,
            precision: precision.to_string(),
            utilisation: self.utilisation,
            this_machine,
            rows: rows.collect(),
        };
        if let Some(path) = plot {
            draw(&document, path).context("drawing the plot")?;
        }
        if self.output.json {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            writeln!(out)?;
            return Ok(());
        }
        show(&document, out)?;
        if let (Some(guess), Some(row)) = (guess, document.rows.last()) {
            writeln!(out, "{}", ask::beside(guess, row.days_on_one_device / 365.25, compared::Unit::Number))?;
        }
        Ok(())
    }

    /// The models asked for, with their training.
    fn trainings(&self) -> Result<Vec<(String, Training)>, Error> {
        let names = match self.model.as_slice() {
            [] => SHOWN.map(str::to_owned).to_vec(),
            names => names.to_vec(),
        };
        let training = |name: &String| {
            let model = published(name)?;
            let tokens = match (self.tokens, &model.training) {
                (Some(tokens), _) => tokens,
                (None, Some(training)) => training.tokens.get(),
                (None, None) => return Err(no_tokens(&model.name)?),
            };
            Ok((model.name, Training::of(&model.shape, tokens, self.context)?))
        };
        names.iter().map(training).collect()
    }
}

fn no_tokens(model: &str) -> Result<Error, Error> {
    let known = published_models()?.into_iter().filter(|model| model.training.is_some()).map(|model| model.name);
    Ok(Error::Setting {
        name: "--tokens",
        found: format!("nothing, and for {model} no number is published"),
        expected: format!("a number of tokens, or one of {}", known.collect::<Vec<_>>().join(", ")),
    })
}

fn precision(dtype: DtypeChoice) -> Precision {
    match dtype {
        DtypeChoice::F64 => Precision::F64,
        DtypeChoice::F32 => Precision::F32,
        DtypeChoice::F16 => Precision::F16,
        DtypeChoice::Bf16 => Precision::Bf16,
    }
}

fn show(document: &Document, out: &mut Output) -> anyhow::Result<()> {
    let Document { gpu, precision, peak, utilisation, this_machine, rows } = document;
    writeln!(
        out,
        "one {gpu}: {} in {precision}, of which training reaches {}; this machine, measured: {}\n",
        numbers::flop_rate(*peak as f64),
        numbers::percent(*utilisation),
        numbers::flop_rate(*this_machine)
    )?;
    let sequence = rows.first().map_or(0, |row| row.training.sequence);
    let header = ["model", "parameters a token uses", "tokens", "6·N·D FLOP"].map(str::to_owned);
    let shape = format!("from the shape, at {sequence} tokens");
    let devices = [format!("on one {gpu}"), format!("{gpu} for a month"), "here, at its peak".to_owned()];
    let mut table = Table::new(header.into_iter().chain([shape]).chain(devices));
    for row in rows {
        let training = &row.training;
        table.push([
            row.model.clone(),
            numbers::count(training.parameters as f64),
            numbers::count(training.tokens as f64),
            format!("{:.2e}", training.flops),
            format!("{:+.1} %", 100.0 * (training.shape_flops / training.flops - 1.0)),
            duration(row.days_on_one_device),
            numbers::count(row.devices_for_a_month),
            duration(row.days_on_this_machine),
        ]);
    }
    writeln!(out, "{table}\n")?;
    writeln!(
        out,
        "A month has {MONTH} days. The devices divide the work without loss here; what dividing costs is the other chapters."
    )?;
    Ok(())
}

/// Days, as years where there are many.
pub(super) fn duration(days: f64) -> String {
    match days {
        days if days < 1.0 => numbers::seconds(days * DAY),
        days if days < 1000.0 => format!("{} days", numbers::plain(days)),
        days => format!("{} years", grouped(days / 365.25)),
    }
}

/// Three significant digits, in groups: `38,500`.
fn grouped(number: f64) -> String {
    if number < 1000.0 {
        return numbers::plain(number);
    }
    let unit = 10f64.powi(number.log10().floor() as i32 - 2);
    numbers::grouped(((number / unit).round() * unit) as u64)
}

fn draw(document: &Document, path: &Path) -> lab::Result<()> {
    let Document { gpu, precision, utilisation, rows, .. } = document;
    let title = format!("Training on one {gpu} at {} of its {precision} peak", numbers::percent(*utilisation));
    years(title, rows.iter().map(|row| (row.model.clone(), row.days_on_one_device))).write(path)
}

/// A bar for each model and the days that it takes.
pub(super) fn years(title: String, days: impl Iterator<Item = (String, f64)>) -> Bars {
    let (models, years): (Vec<_>, Vec<_>) = days.map(|(model, days)| (model, days / 365.25)).unzip();
    Bars::grouped(title, models, Axis::log("years")).series("6·N·D FLOPs", years).level("one month", MONTH / 365.25)
}
