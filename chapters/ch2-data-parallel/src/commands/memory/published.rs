//! A published model, by formula: a training step on more and more GPUs, and the recurring case.

use crate::memory::Replicas;
use candle_core::DType;
use ch1_single_gpu::memory::Plan;
use decoder::shape::{Hardware, PublishedModel};
use lab::program::Output;
use lab::{Table, numbers};
use serde::Serialize;
use std::io::Write;

/// Tokens of a sequence, and sequences of the global batch that is trained on.
const TRAINING: (u64, u64) = (4096, 64);
const RANKS: [u64; 4] = [1, 8, 16, 64];
/// Users, and tokens of context of each.
const USERS: (u64, u64) = (20, 32 << 10);
/// GPUs that the recurring case may take.
const AT_MOST: u64 = 8;

/// A training step: what one GPU holds.
#[derive(Serialize)]
pub(super) struct Training {
    pub(super) model: String,
    pub(super) gpu: String,
    pub(super) gpu_memory: u64,
    pub(super) rows: Vec<Row>,
}

/// One number of ranks.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) dp: u64,
    sequences: u64,
    pub(super) weights: u64,
    pub(super) gradients: u64,
    pub(super) optimiser: u64,
    pub(super) activations: u64,
    total: u64,
}

impl Training {
    pub(super) fn of(model: &PublishedModel, gpu: &str) -> decoder::Result<Self> {
        let gpu = Hardware::named(gpu)?;
        let row = |dp: u64| {
            let sequences = TRAINING.1.div_ceil(dp);
            let plan = Plan { context: TRAINING.0, batch: sequences, dtype: DType::BF16, training: true };
            let held = plan.footprint(&model.shape)?;
            Ok::<_, decoder::Error>(Row {
                dp,
                sequences,
                weights: held.weights,
                gradients: held.gradients,
                optimiser: held.optimiser,
                activations: held.activations,
                total: held.total()?,
            })
        };
        let rows = RANKS.map(row).into_iter().collect::<Result<_, _>>()?;
        Ok(Self { model: model.name.clone(), gpu: gpu.name, gpu_memory: gpu.memory.get(), rows })
    }

    pub(super) fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        let Self { model, gpu, gpu_memory, rows } = self;
        writeln!(
            out,
            "{model}: training in mixed precision on {} x {} tokens; held by each {gpu} of {}\n",
            TRAINING.1,
            numbers::grouped(TRAINING.0),
            gigabytes(*gpu_memory)
        )?;
        let mut table = Table::new([
            "dp",
            "sequences each",
            "weights",
            "gradients",
            "optimiser",
            "activations",
            "all",
            "of one GPU",
        ]);
        for row in rows {
            let bytes = [row.weights, row.gradients, row.optimiser, row.activations, row.total].map(gigabytes);
            let counts = [row.dp.to_string(), row.sequences.to_string()];
            let share = numbers::ratio(row.total as f64 / *gpu_memory as f64);
            table.push(counts.into_iter().chain(bytes).chain([share]));
        }
        writeln!(out, "{table}")?;
        Ok(())
    }
}

/// The recurring case: replicas that share the users.
#[derive(Serialize)]
pub(super) struct Case {
    model: String,
    gpu: String,
    users: u64,
    context: u64,
    rows: Vec<CaseRow>,
}

/// Some replicas.
#[derive(Serialize)]
pub(super) struct CaseRow {
    replicas: u64,
    users_each: u64,
    weights: u64,
    kv_cache: u64,
    devices_each: u64,
    devices: u64,
    step_seconds: f64,
    tokens_per_second: f64,
}

impl Case {
    pub(super) fn of(model: &PublishedModel, gpu: &str) -> decoder::Result<Self> {
        let gpu = Hardware::named(gpu)?;
        let row = |replicas, devices| {
            let one = Replicas::of(&model.shape, USERS, replicas, &gpu, devices)?;
            Ok::<_, decoder::Error>(CaseRow {
                replicas,
                users_each: one.users,
                weights: one.held.weights,
                kv_cache: one.held.kv_cache,
                devices_each: one.devices,
                devices: one.all_devices(),
                step_seconds: one.step,
                tokens_per_second: one.rate(USERS.0),
            })
        };
        let rows = [row(1, None), row(1, Some(AT_MOST)), row(2, None), row(4, None), row(USERS.0, None)];
        let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
        // All GPUs for one replica are only shown where they hold it.
        let least = rows.first().map_or(0, |row| row.devices);
        let rows = rows.into_iter().enumerate().filter(|(index, row)| *index != 1 || row.devices > least);
        let rows = rows.map(|(_, row)| row).collect();
        Ok(Self { model: model.name.clone(), gpu: gpu.name, users: USERS.0, context: USERS.1, rows })
    }

    /// Devices of each of some replicas at least.
    pub(super) fn devices_of(&self, replicas: u64) -> Option<u64> {
        self.rows.iter().find(|row| row.replicas == replicas).map(|row| row.devices_each)
    }

    pub(super) fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        let Self { model, gpu, users, context, rows } = self;
        writeln!(
            out,
            "the recurring case: {model} in 16 bits, {users} users with {} tokens each, on {gpu}\n",
            numbers::grouped(*context)
        )?;
        let header =
            ["replicas", "users each", "weights", "KV cache", "GPUs each", "GPUs", "a step", "tokens/s of all users"];
        let mut table = Table::new(header);
        for row in rows {
            table.push([
                row.replicas.to_string(),
                row.users_each.to_string(),
                gigabytes(row.weights),
                gigabytes(row.kv_cache),
                row.devices_each.to_string(),
                row.devices.to_string(),
                numbers::seconds(row.step_seconds),
                numbers::plain(row.tokens_per_second),
            ]);
        }
        writeln!(out, "{table}\n")?;
        writeln!(
            out,
            "GPUs each: at least, as if a replica's bytes could be divided evenly; a step: at least, its bytes read once, all its GPUs side\n\
             by side. Replicas send each other nothing. But every replica holds, and in every step reads, all weights again: the same GPUs\n\
             joined to one replica answer faster. How one replica is divided over several GPUs is the question of the chapters 3 and 4."
        )?;
        Ok(())
    }
}

/// In the 10⁹ bytes that makers of devices count in.
fn gigabytes(bytes: u64) -> String {
    format!("{} GB", numbers::plain(bytes as f64 / 1e9))
}
