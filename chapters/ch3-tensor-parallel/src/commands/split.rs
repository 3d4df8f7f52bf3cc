//! `cargo ch3 split`: one feed-forward network and one attention block, cut: who holds what; summands before, the result after.

mod figure;

use crate::Layout;
use crate::anatomy::{self, Reduced, SHOWN};
use crate::core::Core;
use clap::Args;
use decoder::split::Block;
use lab::compared::Unit;
use lab::flags::{DeviceFlags, ModelFlags, OutputFlags, TensorParallelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use lab::{Table, ask};
use serde_json::json;
use std::io::Write;

/// What `cargo ch3 split` takes.
#[derive(Args, Debug)]
pub(super) struct SplitCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: TensorParallelFlags,
    #[command(flatten)]
    with: WithFlags,
    /// Text whose last token is followed through layer 0
    #[arg(long, value_name = "TEXT", default_value = "the dog")]
    prompt: String,
    #[command(flatten)]
    output: OutputFlags,
}

const BLOCKS: [Block; 2] = [Block::Attention, Block::FeedForward];

impl SplitCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let layout = Layout::new(&described.config, self.parallel.tp)?;
        let ids = described.tokenizer()?.encode(&self.prompt, true)?;
        if ids.is_empty() {
            let expected = "it has no tokens; give some text".to_owned();
            return Err(lab::Error::Flag { flag: "--prompt", found: format!("{:?}", self.prompt), expected }.into());
        }
        let guess = match self.output.predict {
            true => ask::number(&format!(
                "The first {SHOWN} numbers of each block's result are shown. How many of them does rank 0 have before the reduction?"
            ))?,
            false => None,
        };
        let reduced = anatomy::reduce(core, &described, layout.tp(), &ids)?;
        if let Some(path) = plot {
            figure::draw(&layout, &core, &BLOCKS).write(path)?;
        }
        if self.output.json {
            let block = |reduced: &Reduced| {
                json!({ "block": name(reduced.block), "summands": reduced.summands, "sum": reduced.sum,
                        "one_device": reduced.single })
            };
            return write_json(out, &reduced.iter().map(block).collect::<Vec<_>>());
        }
        for (block, reduced) in BLOCKS.into_iter().zip(&reduced) {
            writeln!(out, "{} of layer 0 on {} ranks\n", name(block), layout.tp())?;
            writeln!(out, "{}\n", drawn(&layout, block))?;
            writeln!(out, "{}\n", held(&layout, &core, block))?;
            writeln!(out, "the first numbers of its result, for the last token of {:?}:\n", self.prompt)?;
            writeln!(out, "{}\n", numbers(reduced))?;
        }
        if let Some(guess) = guess {
            writeln!(out, "{}\n", ask::beside(guess, finished(&reduced) as f64, Unit::Count))?;
        }
        writeln!(out, "A rank's summand is none of the numbers of the result; the sum is, on every rank.")?;
        if let Some(path) = plot {
            writeln!(out, "\nfigure: {}", path.display())?;
        }
        Ok(())
    }
}

/// Numbers of rank 0's summands that are those of the result.
fn finished(reduced: &[Reduced]) -> usize {
    let same = |(summand, sum): &(&f64, &f64)| summand == sum;
    reduced.iter().map(|block| block.summands[0].iter().zip(&block.sum).filter(same).count()).sum()
}

fn name(block: Block) -> &'static str {
    match block {
        Block::Attention => "attention",
        Block::FeedForward => "feed-forward network",
    }
}

/// The way through a block, with the widths on one rank.
fn drawn(layout: &Layout, block: Block) -> String {
    let config = layout.config();
    let hidden = config.hidden;
    match block {
        Block::Attention => {
            let (heads, kv_heads) = (layout.heads(), layout.kv_heads());
            format!(
                "  x [{hidden}] ── f ──▶ q [{}], k, v [{}]: {heads} of {} heads, {kv_heads} of {} key heads ──▶ attention ──▶ o [{hidden}] ── g ──▶ sum",
                heads * config.head_dim,
                kv_heads * config.head_dim,
                config.heads,
                config.kv_heads
            )
        }
        Block::FeedForward => format!(
            "  x [{hidden}] ── f ──▶ gate, up [{}]: of {} ──▶ activation ──▶ down [{hidden}] ── g ──▶ sum",
            layout.ffn(),
            config.ffn
        ),
    }
}

fn held(layout: &Layout, core: &Core, block: Block) -> Table {
    let shares: Vec<_> = (0..layout.tp()).map(|rank| anatomy::shares(layout, core, block, rank)).collect();
    let ranks = (0..layout.tp()).map(|rank| format!("rank {rank}"));
    let header = ["weight", "whole"].map(str::to_owned).into_iter().chain(ranks);
    let row = |index: usize| {
        let first = &shares[0][index];
        let parts = shares.iter().map(|rank| rank[index].part.clone());
        [first.name.clone(), format!("{:?}", first.whole)].into_iter().chain(parts).collect::<Vec<_>>()
    };
    (0..shares[0].len()).map(row).fold(Table::new(header), Table::row)
}

pub(super) fn numbers(reduced: &Reduced) -> Table {
    let cells = |name: String, values: &[f64]| {
        std::iter::once(name).chain(values.iter().map(|value| format!("{value:+.5}"))).collect::<Vec<_>>()
    };
    let header = std::iter::once(String::new()).chain((0..reduced.sum.len()).map(|index| format!("[{index}]")));
    let summands = reduced.summands.iter().enumerate();
    let table =
        summands.fold(Table::new(header), |table, (rank, values)| table.row(cells(format!("rank {rank}"), values)));
    table.row(cells("sum".to_owned(), &reduced.sum)).row(cells("one device".to_owned(), &reduced.single))
}
