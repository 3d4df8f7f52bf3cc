//! `cargo ch4 stages`: which layers are on which stage, and what each stage costs and holds.

use crate::core::Core;
use crate::flags::{ScheduleFlags, StageFlags, in_terms_of_flags};
use crate::stages::{LayerCosts, Stages};
use clap::Args;
use decoder::Config;
use lab::flags::{DeviceFlags, ModelFlags, WithFlags};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use lab::{Table, numbers};
use ledger::Bytes;
use serde_json::json;
use std::io::Write;

/// What `cargo ch4 stages` takes.
#[derive(Args, Debug)]
pub(super) struct StagesCommand {
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    stages: StageFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
    /// Tokens of a sequence: attention costs more in longer ones, the head does not
    #[arg(long, value_name = "TOKENS", default_value_t = 256)]
    seq: usize,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl StagesCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let described = Described::from_flags(&self.model, &self.device)?;
        let config = &described.config;
        // Enough micro-batches for any schedule: only its layout counts here.
        let core = Core::choose(&self.with)?;
        let schedule = self.schedule.schedule(&core, self.stages.pp, 2 * self.stages.pp).map_err(in_terms_of_flags)?;
        let stages = self.stages.stages(&core, schedule.layout, config, self.seq).map_err(in_terms_of_flags)?;
        let costs = LayerCosts::flops(config, self.seq.max(1))?;
        let rows = rows(&stages, &costs, config, described.dtype.size_in_bytes() as u64);
        let (total, largest) = rows.iter().fold((0.0, 0.0f64), |(sum, most), row| (sum + row.cost, most.max(row.cost)));
        let balance = total / rows.len() as f64 / largest;
        if self.json {
            let list = rows.iter().map(|row| {
                json!({"stage": row.stage, "layers": row.layers, "embedding": row.embedding, "head": row.head,
                       "flops": row.cost, "parameters": row.parameters, "weight_bytes": row.bytes})
            });
            return write_json(out, &json!({"stages": list.collect::<Vec<_>>(), "balance": balance}));
        }
        let average = costs.layers.iter().sum::<f64>() / costs.layers.len() as f64;
        writeln!(
            out,
            "{} layers on {} stages, {} tokens per sequence; the head costs as much as {} layers\n",
            config.layers,
            rows.len(),
            self.seq,
            numbers::plain(costs.head / average)
        )?;
        let mut table = Table::new(["stage", "holds", "FLOPs of a forward", "share", "parameters", "weights"]);
        for row in &rows {
            table.push([
                row.stage.to_string(),
                row.holds(),
                numbers::flops(row.cost),
                numbers::percent(row.cost / total),
                numbers::count(row.parameters as f64),
                Bytes(row.bytes).to_string(),
            ]);
        }
        writeln!(out, "{table}\n")?;
        writeln!(
            out,
            "balance: {}: every stage waits for the most expensive one, which takes {} of the average",
            numbers::percent(balance),
            numbers::ratio(1.0 / balance)
        )?;
        if config.tied && stages.first() != stages.last() {
            writeln!(out, "tied: stages {} and {} both hold the embedding", stages.first(), stages.last())?;
        }
        Ok(())
    }
}

/// A stage's part.
struct Row {
    stage: usize,
    layers: Vec<[usize; 2]>,
    embedding: bool,
    head: bool,
    cost: f64,
    parameters: u64,
    bytes: u64,
}

impl Row {
    /// `embedding, layers 0-2`.
    fn holds(&self) -> String {
        let layers = self.layers.iter().filter(|[from, to]| from < to).map(|[from, to]| match to - from {
            1 => format!("layer {from}"),
            _ => format!("layers {from}-{}", to - 1),
        });
        let embedding = self.embedding.then(|| "embedding".to_owned());
        let head = self.head.then(|| "head".to_owned());
        embedding.into_iter().chain(layers).chain(head).collect::<Vec<_>>().join(", ")
    }
}

fn rows(stages: &Stages, costs: &LayerCosts, config: &Config, width: u64) -> Vec<Row> {
    let positions = stages.chunks().len();
    let row = |stage: usize| {
        let chunks = stages.of_stage(stage).into_iter().enumerate();
        let cost = chunks.map(|(chunk, layers)| costs.chunk(layers, stages.position(stage, chunk), positions)).sum();
        let parameters = stages.parameters(config, stage);
        Row {
            stage,
            layers: stages.of_stage(stage).iter().map(|layers| [layers.start, layers.end]).collect(),
            embedding: stage == stages.first(),
            head: stage == stages.last(),
            cost,
            parameters,
            bytes: parameters * width,
        }
    };
    (0..stages.len()).map(row).collect()
}
