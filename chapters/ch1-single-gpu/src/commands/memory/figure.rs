//! The pictures of `cargo ch1 memory`.

use super::{Document, KindBytes, Loaded, Memory, Row, Subject, gigabytes, parts, row};
use crate::memory::Plan;
use decoder::Error;
use decoder::shape::{Hardware, PublishedModel};
use lab::numbers;
use lab::plot::{Axis, Bars};
use ledger::Bytes;
use std::path::Path;

impl Memory {
    /// Draws what was shown.
    pub(super) fn draw(&self, subject: &Subject, document: &Document, path: &Path) -> anyhow::Result<()> {
        let bars = match (subject, &document.loaded) {
            (Subject::Published(model), _) => self.bars_over_context(model)?,
            (_, Some(loaded)) if document.published.is_empty() => bars_of_loaded(loaded),
            _ => self.bars_over_models(&document.published),
        };
        Ok(bars.write(path)?)
    }

    /// Published models beside each other.
    fn bars_over_models(&self, rows: &[Row]) -> Bars {
        let context =
            rows.first().map_or_else(String::new, |row| format!(" of {} tokens", numbers::grouped(row.context)));
        levels(self.bars(rows, rows.iter().map(|row| row.model.clone()).collect(), "Memory: ", &context), rows)
    }

    /// One published model, the context growing.
    pub(in crate::commands) fn bars_over_context(&self, model: &PublishedModel) -> Result<Bars, Error> {
        let gpu = Hardware::named(self.gpu.as_deref().unwrap_or("H100"))?;
        let contexts = [2u64, 8, 32, 64, 128].map(|thousand| thousand << 10);
        let rows = contexts.map(|context| {
            let plan = Plan { context, ..self.plan() };
            row(model, &gpu, &plan, &plan.footprint(&model.shape)?)
        });
        let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
        let groups = contexts.map(|context| format!("{}K tokens", context >> 10)).to_vec();
        Ok(levels(self.bars(&rows, groups, &format!("Memory of {}: ", model.name), ""), &rows))
    }

    fn bars(&self, rows: &[Row], groups: Vec<String>, of: &str, context: &str) -> Bars {
        let (dtype, batch) = rows.first().map_or(("", 0), |row| (&*row.dtype, row.batch));
        let doing = if self.training { "training with AdamW" } else { "generating" };
        let sequences = if batch == 1 { "1 sequence".to_owned() } else { format!("{batch} sequences") };
        let title = format!("{of}{doing}, {dtype}, {sequences}{context}");
        parts(self.training).into_iter().fold(Bars::stacked(title, groups, Axis::linear("GB")), |bars, (name, part)| {
            bars.series(name, rows.iter().map(|row| part(row) as f64 / 1e9))
        })
    }
}

/// The memory of one device, and of a machine with eight.
fn levels(bars: Bars, rows: &[Row]) -> Bars {
    match rows.first() {
        Some(Row { gpu, gpu_memory, .. }) => {
            let memory = *gpu_memory as f64 / 1e9;
            let label = |count: &str, bytes: u64| format!("{count} {gpu}, {}", gigabytes(bytes));
            bars.level(label("one", *gpu_memory), memory)
                .level(label("eight", gpu_memory.saturating_mul(8)), 8.0 * memory)
        }
        None => bars,
    }
}

fn bars_of_loaded(loaded: &Loaded) -> Bars {
    let title = format!("Memory of {}: {} x {} tokens", short(&loaded.model), loaded.batch, loaded.context);
    bars_by_kind(title, &loaded.kinds)
}

/// Predicted beside measured.
pub(in crate::commands) fn bars_by_kind(title: String, kinds: &[KindBytes]) -> Bars {
    let mebibytes = |bytes| Bytes(bytes).mebibytes();
    let bars = Bars::grouped(title, kinds.iter().map(|kind| kind.kind), Axis::linear("MiB"))
        .series("predicted", kinds.iter().map(|kind| mebibytes(kind.predicted)));
    let measured = kinds.iter().map(|kind| kind.peak.map(mebibytes)).collect::<Option<Vec<_>>>();
    match measured {
        Some(measured) => bars.series("measured, at most", measured),
        None => bars,
    }
}

/// The last part of a path.
pub(in crate::commands) fn short(model: &str) -> &str {
    model.rsplit(['/', '\\']).next().unwrap_or(model)
}
