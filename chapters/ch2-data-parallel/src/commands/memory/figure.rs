//! The pictures of `cargo ch2 memory`: what a rank holds, over the number of ranks.

use super::Document;
use super::published::Training;
use super::run::{KindBytes, Runs};
use lab::plot::{Axis, Bars};
use ledger::Bytes;
use std::path::Path;

impl Document {
    /// What was run, else what was computed.
    pub(super) fn draw(&self, path: &Path) -> lab::Result<()> {
        match (&self.runs, &self.training) {
            (Some(runs), _) => runs.bars().write(path),
            (None, Some(training)) => training.bars().write(path),
            (None, None) => Ok(()),
        }
    }
}

impl Runs {
    /// The kinds on top of each other: as measured, where they were, else as predicted.
    pub(in crate::commands) fn bars(&self) -> Bars {
        let groups = self.rows.iter().map(|row| format!("dp {}", row.dp));
        let title = format!("{}: held by each rank in training, each kind at its peak", self.model);
        let kinds = self.rows.first().map(|row| row.kinds.as_slice()).unwrap_or_default();
        let bytes = |kind: &KindBytes| Bytes(kind.peak.unwrap_or(kind.predicted)).mebibytes();
        let bars = Bars::stacked(title, groups, Axis::linear("MiB"));
        let bars = kinds.iter().enumerate().fold(bars, |bars, (index, kind)| {
            bars.series(kind.kind, self.rows.iter().filter_map(|row| row.kinds.get(index)).map(bytes))
        });
        bars.level("weights, gradients, moments", Bytes(self.floor).mebibytes())
    }
}

impl Training {
    pub(in crate::commands) fn bars(&self) -> Bars {
        let groups = self.rows.iter().map(|row| format!("dp {}", row.dp));
        let title = format!("{}: held by each GPU in training", self.model);
        let bars = Bars::stacked(title, groups, Axis::linear("GB"));
        let gigabytes = |of: fn(&super::published::Row) -> u64| self.rows.iter().map(move |row| of(row) as f64 / 1e9);
        bars.series("weights", gigabytes(|row| row.weights))
            .series("gradients", gigabytes(|row| row.gradients))
            .series("optimiser", gigabytes(|row| row.optimiser))
            .series("activations", gigabytes(|row| row.activations))
            .level(format!("one {}", self.gpu), self.gpu_memory as f64 / 1e9)
    }
}
