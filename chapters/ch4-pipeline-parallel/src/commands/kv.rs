//! `cargo ch4 kv`: the KV cache cut by layer and by head.

use super::files;
use crate::kv::{Cut, Measured, Shares, measured};
use clap::Args;
use lab::ask;
use lab::compared::Unit;
use lab::flags::{DeviceFlags, ModelFlags, OutputFlags, within};
use lab::plot::{Axis, Bars};
use lab::program::{Output, write_json};
use lab::subject::Subject;
use lab::{Compared, Comparison, Table, numbers};
use ledger::Bytes;
use serde_json::json;
use std::io::Write;
use training::plan::MOST_ROWS;

/// Tokens of a sequence of a published model at most: its sizes stay far below 2^64 bytes.
const MOST_TOKENS: usize = 1 << 24;
const MIB: f64 = (1u64 << 20) as f64;

/// What `cargo ch4 kv` takes.
#[derive(Args, Debug)]
pub(super) struct Kv {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Ranks that the cache is cut over
    #[arg(long, visible_alias = "pp", value_name = "RANKS", default_value_t = 4)]
    ranks: usize,
    /// Sequences
    #[arg(long, value_name = "ROWS", default_value_t = 1)]
    batch: usize,
    /// Tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    context: usize,
    #[command(flatten)]
    output: OutputFlags,
}

impl Kv {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let subject = Subject::of(&self.model, &self.device)?;
        within("--batch", self.batch, 1..=MOST_ROWS)?;
        let context = match &subject {
            Subject::Loaded(described) => described.config.context,
            Subject::Published(_) => MOST_TOKENS,
        };
        within("--context", self.context, 1..=context)?;
        let (shape, width) = crate::kv::shape(&subject)?;
        let of = |cut| Shares::of(cut, &shape, self.ranks, self.batch, self.context, width);
        let by_layer = of(Cut::Layer)?;
        // Not every number of ranks can cut heads.
        let (by_head, refused) = match of(Cut::Head) {
            Ok(shares) => (Some(shares), None),
            Err(error) => (None, Some(error.to_string())),
        };
        if matches!(&subject, Subject::Loaded(described) if described.device.is_cpu()) {
            lab::memory::check_run("--batch", self.batch, by_layer.whole)?;
        }
        let measured = match &subject {
            Subject::Loaded(described) => Some(measured(described, &by_layer.units, self.batch, self.context)?),
            Subject::Published(_) => None,
        };
        let guess = match self.output.predict {
            true => ask::number("By layer: how many MiB of keys and values does the fullest rank hold?")?,
            false => None,
        };
        if let Some(path) = plot {
            let names = (0..self.ranks).map(|rank| format!("rank {rank}"));
            let mib = |shares: &Shares| shares.bytes.iter().map(|&bytes| bytes as f64 / MIB).collect::<Vec<_>>();
            let bars = Bars::grouped("KV cache by rank", names, Axis::linear("MiB"));
            let bars = bars.series("by layer (pipeline)", mib(&by_layer));
            let bars = match &by_head {
                Some(by_head) => bars.series("by head (tensor parallel)", mib(by_head)),
                None => bars,
            };
            bars.write(path)?;
        }
        if self.output.json {
            return write_json(
                out,
                &json!({
                    "by_layer": by_layer, "by_head": by_head, "by_head_refused": refused, "by_layer_measured": measured,
                }),
            );
        }
        writeln!(out, "{} x {} tokens on {} ranks\n", self.batch, self.context, self.ranks)?;
        writeln!(out, "{}\n", self.table(&by_layer, by_head.as_ref()))?;
        if let Some(measured) = &measured {
            let comparison = compared(&by_layer, measured);
            writeln!(out, "by layer, on ranks that make one token:\n\n{comparison}\n")?;
            anyhow::ensure!(comparison.all_hold(), "the ranks do not hold or send what was predicted");
        }
        for (name, shares) in [("by layer", Some(&by_layer)), ("by head", by_head.as_ref())] {
            let Some(shares) = shares else { continue };
            writeln!(
                out,
                "{name}: balance {}, {} of all keys and values held, {} sent per token by all ranks",
                numbers::percent(shares.balance()),
                numbers::ratio(shares.copies()),
                Bytes(shares.sent.iter().sum())
            )?;
        }
        if let Some(refused) = refused {
            writeln!(out, "by head: not possible: {refused}")?;
        }
        writeln!(
            out,
            "\nBy layer a rank sends one hidden state per token and sequence, whatever the number of layers; by head it takes part in two \
             all-reduces\nper layer. By layer the ranks are as even as layers divide; by head as kv heads do, and ranks beyond them hold \
             copies."
        )?;
        if let (Some(guess), Some(&bytes)) = (guess, by_layer.bytes.iter().max()) {
            writeln!(out, "\n{}", ask::beside(guess, bytes as f64 / MIB, Unit::Number))?;
        }
        files(out, &[("figure", plot)])
    }

    fn table(&self, by_layer: &Shares, by_head: Option<&Shares>) -> Table {
        let header = ["rank", "by layer: layers", "holds", "sends per token"];
        let more = ["by head: kv heads", "holds", "sends per token"];
        let cuts: Vec<&Shares> = std::iter::once(by_layer).chain(by_head).collect();
        let mut table = Table::new(header.into_iter().chain(more.into_iter().filter(|_| by_head.is_some())));
        for rank in 0..self.ranks {
            let cells = cuts.iter().flat_map(|shares| {
                let [held, sent] = [shares.bytes[rank], shares.sent[rank]].map(|bytes| Bytes(bytes).to_string());
                [shares.units[rank].to_string(), held, sent]
            });
            table.push(std::iter::once(rank.to_string()).chain(cells));
        }
        table
    }
}

/// Bytes held and sent, predicted and counted.
fn compared(shares: &Shares, measured: &[Measured]) -> Comparison {
    measured.iter().enumerate().fold(Comparison::default(), |comparison, (rank, measured)| {
        let held = Compared::exact(format!("rank {rank}: cache"), shares.bytes[rank], measured.bytes, Unit::Bytes);
        let sent = Compared::exact(format!("rank {rank}: sent"), shares.sent[rank], Some(measured.sent), Unit::Bytes);
        comparison.with(held).with(sent)
    })
}
