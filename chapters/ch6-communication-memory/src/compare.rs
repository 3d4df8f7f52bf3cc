//! `cargo compare`: flags → the same work for every variant → a table.

use ch1_single_gpu::stories;
use clap::Parser;
use decoder::generation::Options as Generation;
use lab::flags::{ClusterFlags, DeviceFlags, MemoryFlags, ModelFlags, SamplingFlags, within};
use lab::generated::Prompts;
use lab::loaded::Described;
use lab::program::{Output, write_json};
use lab::progress::Progress;
use lab::variant::{Report, Variant, Work, compare};
use std::io::Write;
use std::sync::Arc;
use training::data::{Batches, TokenData};
use training::plan::MOST_ROWS;

/// Gradients of the same batch in another order of additions: relative to a gradient's norm, by type.
const TOLERANCES: [(&str, f64); 2] = [("f64", 1e-9), ("f32", 1e-4)];

/// Every way of distributing the same work, side by side: text, gradients, memory, bytes, time.
///
/// Each variant continues the same prompts and computes the gradient of the same batch. The first is a single device; the others must
/// give the same text and, up to rounding, the same gradients.
#[derive(Parser, Debug)]
#[command(name = "compare", bin_name = "cargo compare", version, max_term_width = 120)]
pub struct Cli {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    memory: MemoryFlags,
    /// Sequences of the batch
    #[arg(long, value_name = "ROWS", default_value_t = 8)]
    batch: usize,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    seq: usize,
    /// Parts that a pipeline cuts the batch into [default: 4, or one per sequence of a smaller batch]
    #[arg(long, value_name = "COUNT")]
    micro_batches: Option<usize>,
    /// Only the variants with these names, beside the single device; see --list
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Print the names of all variants
    #[arg(long)]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// All variants, the single device first.
pub fn variants() -> Vec<Box<dyn Variant>> {
    let mut all = ch1_single_gpu::variant::variants();
    all.extend(ch2_data_parallel::variant::variants());
    all.extend(ch3_tensor_parallel::variant::variants());
    all.extend(ch4_pipeline_parallel::variant::variants());
    all
}

impl Cli {
    /// Runs the variants and shows them.
    ///
    /// # Errors
    /// A flag has no meaning, a variant failed, or one did not do what the single device does.
    pub fn run(self, out: &mut Output) -> anyhow::Result<()> {
        if self.list {
            for variant in variants() {
                writeln!(out, "{}", variant.name())?;
            }
            return Ok(());
        }
        let chosen = self.chosen()?;
        let work = self.work()?;
        let progress = Progress::bar("comparing", chosen.len() as u64);
        let report = compare(&chosen, &work, |name| {
            progress.say(name.to_owned());
            progress.advance(1);
        })?;
        drop(progress);
        if self.json {
            write_json(out, &report)?;
        } else {
            self.show(&report, &work, out)?;
        }
        let tolerance = TOLERANCES.iter().find(|(dtype, _)| *dtype == report.dtype).map_or(f64::INFINITY, |(_, t)| *t);
        anyhow::ensure!(
            report.all_equal(tolerance),
            "a variant is not the single device: other text, gradients that differ by more than {tolerance:e}, or other traffic than \
             predicted"
        );
        Ok(())
    }

    /// The single device, and those that were asked for.
    fn chosen(&self) -> anyhow::Result<Vec<Box<dyn Variant>>> {
        let all = variants();
        let names: Vec<_> = all.iter().map(|variant| variant.name()).collect();
        if let Some(unknown) = self.only.iter().find(|name| !names.contains(name)) {
            let expected = format!("some of {}", names.join(", "));
            return Err(lab::Error::Flag { flag: "--only", found: unknown.clone(), expected }.into());
        }
        let wanted = |(index, variant): &(usize, Box<dyn Variant>)| {
            *index == 0 || self.only.is_empty() || self.only.contains(&variant.name())
        };
        Ok(all.into_iter().enumerate().filter(wanted).map(|(_, variant)| variant).collect())
    }

    fn work(&self) -> anyhow::Result<Work> {
        let described = Described::from_flags(&self.model, &self.device)?;
        let tokenizer = described.tokenizer()?;
        let texts = self.sampling.prompts(&["the dog", "the cat", "the girl", "the bird"])?;
        let generation = Generation {
            sampling: self.sampling.sampling(),
            max_tokens: self.sampling.sample_len()?,
            ..Generation::default()
        };
        generation.sampling.validate()?;
        let prompts = Prompts::new(texts, &tokenizer, generation.max_tokens, described.config.context)?;
        let ends = described.config.eos.first().copied();
        within("--seq", self.seq, 1..=described.config.context)?;
        within("--batch", self.batch, 1..=MOST_ROWS)?;
        let micro_batches = self.micro_batches.unwrap_or(4.min(self.batch));
        within("--micro-batches", micro_batches, 1..=self.batch)?;
        let ids = stories::tokens(&tokenizer, ends, 1, 0, self.batch * self.seq + 1)?;
        let data = Arc::new(TokenData::new(ids, described.config.vocab)?);
        let batch = Batches::new(data, 1, self.batch, self.seq)?.batch(0);
        let options = self.cluster.options(described.dtype, &self.memory)?;
        Ok(Work { described, prompts: prompts.ids, generation, batch, micro_batches, options })
    }

    fn show(&self, report: &Report, work: &Work, out: &mut Output) -> anyhow::Result<()> {
        writeln!(
            out,
            "{} x {} tokens, {}, one gradient; {}, {} inside of a node\n",
            work.batch.rows,
            work.batch.seq,
            report.dtype,
            self.cluster.clock_text(),
            work.options.topology.within.name,
        )?;
        writeln!(out, "{}\n", report.table())?;
        writeln!(
            out,
            "memory: weights, gradients and activations of the fullest rank, each at its peak; sent and calls: of the rank with most;\n\
             gradients: largest ‖difference‖ / ‖gradient‖ of a parameter, against the single device"
        )?;
        Ok(())
    }
}
