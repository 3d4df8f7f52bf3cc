//! `cargo ch4 kv`: the KV cache cut by layer and by head.

use crate::kv::{Cut, Shares};
use clap::Args;
use lab::flags::{DeviceFlags, ModelFlags, OutputFlags};
use lab::plot::{Axis, Bars};
use lab::program::{Output, write_json};
use lab::{Table, numbers};
use ledger::Bytes;
use serde_json::json;
use std::io::Write;

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
        let (shape, width) = crate::kv::shape(&self.model, &self.device)?;
        let cuts =
            [Cut::Layer, Cut::Head].map(|cut| Shares::of(cut, &shape, self.ranks, self.batch, self.context, width));
        let [by_layer, by_head] = cuts;
        let (by_layer, by_head) = (by_layer?, by_head?);
        if let Some(path) = plot {
            let names = (0..self.ranks).map(|rank| format!("rank {rank}"));
            let gib = |shares: &Shares| {
                shares.bytes.iter().map(|&bytes| bytes as f64 / (1u64 << 20) as f64).collect::<Vec<_>>()
            };
            Bars::grouped("KV cache by rank", names, Axis::linear("MiB"))
                .series("by layer (pipeline)", gib(&by_layer))
                .series("by head (tensor parallel)", gib(&by_head))
                .write(path)?;
        }
        if self.output.json {
            return write_json(out, &json!({"by_layer": by_layer, "by_head": by_head}));
        }
        writeln!(out, "{} sequences of {} tokens on {} ranks\n", self.batch, self.context, self.ranks)?;
        let mut table = Table::new([
            "rank",
            "by layer: layers",
            "holds",
            "sends per token",
            "by head: kv heads",
            "holds",
            "sends per token",
        ]);
        for rank in 0..self.ranks {
            let mut cells = vec![rank.to_string()];
            for shares in [&by_layer, &by_head] {
                cells.push(shares.units[rank].to_string());
                cells.push(Bytes(shares.bytes[rank]).to_string());
                cells.push(Bytes(shares.sent[rank]).to_string());
            }
            table.push(cells);
        }
        writeln!(out, "{table}\n")?;
        for (name, shares) in [("by layer", &by_layer), ("by head", &by_head)] {
            writeln!(
                out,
                "{name}: balance {}, {} of all keys and values held, {} sent per token by all ranks",
                numbers::percent(shares.balance()),
                numbers::ratio(shares.copies()),
                Bytes(shares.sent.iter().sum())
            )?;
        }
        writeln!(
            out,
            "\nBy layer a rank sends one hidden state per token and sequence, whatever the number of layers; by head it takes part in two \
             all-reduces\nper layer. By layer the ranks are as even as layers divide; by head as kv heads do, and ranks beyond them hold \
             copies."
        )?;
        Ok(())
    }
}
