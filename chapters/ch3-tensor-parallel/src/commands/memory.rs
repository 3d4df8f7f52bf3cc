//! `cargo ch3 memory`: what a rank holds against tp, predicted and measured; the work that did not fit on one device does on several; and
//! the recurring case.

use super::sequence::SequenceFlags;
use crate::boundary::Inputs;
use crate::core::Core;
use crate::memory::{Step, training};
use crate::train::Trainer;
use crate::{Error, Layout};
use ::training::data::TokenData;
use ::training::optimiser::{AdamW, Rule};
use ::training::plan::Plan;
use ::training::run::Run;
use ::training::schedule::Schedule;
use candle_core::DType;
use ch1_single_gpu::memory::state_bytes;
use ch1_single_gpu::train::in_terms_of_flags;
use clap::Args;
use collective::{ClockKind, Options, Rank, launch};
use decoder::shape::hardware::Hardware;
use decoder::shape::{Attention, published};
use lab::compared::Unit;
use lab::flags::{DeviceFlags, MemoryFlags, ModelFlags, OutputFlags};
use lab::loaded::Described;
use lab::plot::{Axis, Bars};
use lab::program::{Output, write_json};
use lab::{Table, ask, numbers};
use ledger::{Bytes, Kind, Snapshot};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

/// Steps: the second is the first that holds moments beside activations.
const STEPS: u64 = 2;
/// The recurring case of every chapter: 32K tokens, 20 users, up to 8 devices.
const CASE: (&str, u64, u64) = ("Llama 3.1 70B", 32 << 10, 20);
const GPU: &str = "H100";
/// What chapter 1's training did not fit into.
pub(super) const WALL: Bytes = Bytes(64 << 20);

/// What `cargo ch3 memory` takes.
#[derive(Args, Debug)]
pub(super) struct Memory {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Only this number of tensor-parallel ranks [default: every legal one up to 8]
    #[arg(long, visible_alias = "tensor-parallel-size", value_name = "RANKS")]
    tp: Option<usize>,
    #[command(flatten)]
    sequence: SequenceFlags,
    /// Sequences of a training step
    #[arg(long, value_name = "ROWS", default_value_t = 4)]
    batch: usize,
    /// Tokens of each
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    seq: usize,
    #[command(flatten)]
    memory: MemoryFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// Training on one number of ranks.
pub(super) struct Row {
    tp: usize,
    predicted: Vec<(Kind, u64)>,
    /// Of the fullest rank; `None` if it did not fit.
    held: Option<Snapshot>,
}

impl Memory {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        // Chapter 1's device, for the model that did not fit on it.
        let wall = self.model.model.is_none().then_some(WALL.0);
        let limit = self.memory.device_memory()?.or(wall);
        let described = Described::from_flags(&self.model, &self.device)?;
        let sizes = match self.tp {
            Some(tp) => vec![Layout::new(&described.config, tp)?.tp()],
            None => Layout::legal(&described.config).into_iter().filter(|&tp| tp <= 8).collect(),
        };
        let plan = self.plan()?;
        plan.check(described.config.context).map_err(in_terms_of_flags)?;
        let guess = match self.output.predict {
            true => ask::number("How many MiB of activations does a rank hold with the largest number of ranks?")?,
            false => None,
        };
        let rows =
            sizes.iter().map(|&tp| self.row(&described, &plan, tp, limit)).collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(path) = &plot {
            chart(&rows).write(path)?;
        }
        if self.output.json {
            let rows: Vec<_> = rows.iter().map(document).collect();
            return write_json(out, &json!({ "device_memory": limit, "training": rows, "case": case()?.1 }));
        }
        let sequence = if self.sequence.sequence_parallel { ", sequence-parallel" } else { "" };
        let device = limit.map_or_else(String::new, |limit| format!("; a device has {}", Bytes(limit)));
        let (batch, seq) = (self.batch, self.seq);
        let work = format!("{STEPS} training steps with AdamW on {batch} x {seq} tokens{sequence}{device}");
        writeln!(out, "{work}; MiB predicted, in brackets measured:\n")?;
        writeln!(out, "{}\n", table(&rows))?;
        if let (Some(guess), Some(bytes)) = (guess, rows.last().and_then(activations)) {
            writeln!(out, "{}\n", ask::beside(guess, Bytes(bytes).mebibytes(), Unit::Number))?;
        }
        let activations = match self.sequence.inputs() {
            None => {
                "Of the activations those\nwithin the blocks do; what lies between them is on every rank, unless --sequence-parallel cuts it."
            }
            Some(Inputs::Kept) => {
                "Of the activations those\nwithin and between the blocks do; each block's gathered input is kept whole, unless --regather gathers it again."
            }
            Some(Inputs::Regathered) => {
                "Nearly all activations do,\ntoo: a block's input is gathered again in the backward, not kept."
            }
        };
        writeln!(out, "Weights, gradients and moments fall with tp. {activations}\n")?;
        let (model, context, users) = CASE;
        writeln!(out, "{model} in bf16, {users} users at {context} tokens, on {GPU}s:\n\n{}", case()?.0)?;
        if let Some(path) = plot {
            writeln!(out, "\nfigure: {}", path.display())?;
        }
        Ok(())
    }

    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        Ok(Plan {
            batch: self.batch,
            seq: self.seq,
            micro_batches: 1,
            steps: STEPS,
            rule: Rule::AdamW(AdamW::default()),
            schedule: Schedule::constant(1e-3)?,
            clip: Some(1.0),
            seed: 1,
        })
    }

    pub(super) fn row(&self, described: &Described, plan: &Plan, tp: usize, limit: Option<u64>) -> anyhow::Result<Row> {
        let layout = Layout::new(&described.config, tp)?;
        let optimiser = state_bytes(described.dtype).optimiser;
        let step = Step { rows: plan.batch, seq: plan.seq, dtype: described.dtype, optimiser };
        let predicted = training(&layout, 0, step, self.sequence.inputs());
        let each = predicted.iter().map(|(_, bytes)| bytes).sum();
        match (lab::memory::check_machine("--tp", tp, each), limit) {
            // This machine would be full before the virtual device is.
            (Err(_), Some(limit)) if each > limit => return Ok(Row { tp, predicted, held: None }),
            (fits, _) => fits?,
        }
        let vocab = described.config.vocab;
        let ids = (0..(STEPS as usize * plan.batch + 1) * plan.seq + 1).map(|token| (token * 7 % vocab) as u32);
        let data = Arc::new(TokenData::new(ids.collect(), vocab)?);
        let options = Options { clock: ClockKind::Wall, device_memory: limit, ..Options::default() };
        let held = launch(tp, &options, |rank| self.train(rank, described, plan, data.clone())).map_err(Error::from);
        let fullest = |ranks: Vec<Option<Snapshot>>| ranks.into_iter().flatten().max_by_key(|held| held.device().peak);
        match held {
            Ok(ranks) => Ok(Row { tp, predicted, held: fullest(ranks) }),
            Err(error) if error.is_out_of_memory() => Ok(Row { tp, predicted, held: None }),
            Err(error) => Err(error.into()),
        }
    }

    fn train(
        &self,
        rank: &Rank,
        described: &Described,
        plan: &Plan,
        data: Arc<TokenData>,
    ) -> Result<Option<Snapshot>, Error> {
        let tensor = self.sequence.tensor(Core::default(), &described.config, rank)?;
        let model = described.load(&tensor.training_split())?;
        let mut run = Run::new(plan.clone(), model, data, tensor.training(rank.observer()))?;
        let mut trainer = Trainer::new(&tensor, None);
        while !run.is_done() {
            trainer.step(&mut run)?;
        }
        Ok(rank.ledger().snapshot())
    }
}

const KINDS: [Kind; 4] = [Kind::Weights, Kind::Gradients, Kind::Optimiser, Kind::Activations];

pub(super) fn table(rows: &[Row]) -> Table {
    let names = KINDS.iter().map(|kind| kind.name().to_owned());
    let header = std::iter::once("tp".to_owned()).chain(names).chain(["device".to_owned()]);
    rows.iter().fold(Table::new(header), |table, row| {
        let kinds = KINDS.iter().map(|&kind| {
            let predicted = Bytes(predicted(row, kind)).mebibytes();
            match &row.held {
                Some(held) => format!("{predicted:.2} ({:.2})", Bytes(held.of(kind).peak).mebibytes()),
                None => format!("{predicted:.2}"),
            }
        });
        let device = match &row.held {
            Some(held) => format!("{:.2} ✓ fits", Bytes(held.device().peak).mebibytes()),
            None => "✗ out of memory".to_owned(),
        };
        table.row(std::iter::once(row.tp.to_string()).chain(kinds).chain([device]))
    })
}

/// Whether it fitted.
pub(super) fn fits(row: &Row) -> bool {
    row.held.is_some()
}

/// Most activations of the fullest rank.
pub(super) fn activations(row: &Row) -> Option<u64> {
    row.held.as_ref().map(|held| held.of(Kind::Activations).peak)
}

fn predicted(row: &Row, kind: Kind) -> u64 {
    row.predicted.iter().filter(|(of, _)| *of == kind).map(|(_, bytes)| bytes).sum()
}

pub(super) fn chart(rows: &[Row]) -> Bars {
    let groups = rows.iter().map(|row| format!("tp {}", row.tp));
    let bars = Bars::stacked("Training on one rank, predicted", groups, Axis::linear("MiB"));
    KINDS.iter().fold(bars, |bars, &kind| {
        bars.series(kind.name(), rows.iter().map(|row| Bytes(predicted(row, kind)).mebibytes()).collect::<Vec<_>>())
    })
}

fn document(row: &Row) -> Value {
    let kinds = KINDS.iter().map(|&kind| {
        json!({ "kind": kind.name(), "predicted": predicted(row, kind),
                "peak": row.held.as_ref().map(|held| held.of(kind).peak) })
    });
    json!({ "tp": row.tp, "kinds": kinds.collect::<Vec<_>>(), "fits": row.held.is_some(),
            "device_peak": row.held.as_ref().map(|held| held.device().peak) })
}

/// The recurring case: bytes per device.
fn case() -> anyhow::Result<(Table, Value)> {
    let (model, context, users) = CASE;
    let (shape, memory) = (published(model)?.shape, Hardware::named(GPU)?.memory.get());
    let kv_heads = match shape.attention {
        Attention::Grouped { kv_heads, .. } => kv_heads.get(),
        Attention::Latent { .. } => 1,
    };
    let (weights, kv) = (shape.weight_bytes(DType::BF16)?, shape.kv_bytes(context, users, DType::BF16)?);
    let header = ["tp", "weights", "KV cache", "together", "of one device", "fits"];
    let mut table = Table::new(header);
    let mut rows = Vec::new();
    for tp in [1, 2, 4, 8] {
        // Key heads are shared once there are more ranks than heads.
        let (weights, kv) = (weights / tp, kv / tp.min(kv_heads));
        let share = (weights + kv) as f64 / memory as f64;
        let fits = if share <= 1.0 { "✓" } else { "✗" };
        let cells = [weights, kv, weights + kv].map(|bytes| Bytes(bytes).to_string());
        let [weights_text, kv_text, together] = cells;
        table.push([tp.to_string(), weights_text, kv_text, together, numbers::percent(share), fits.to_owned()]);
        rows.push(json!({ "tp": tp, "weights": weights, "kv_cache": kv, "fits": share <= 1.0 }));
    }
    Ok((table, Value::Array(rows)))
}
