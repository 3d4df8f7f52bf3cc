//! The pictures of `cargo ch2 scale`: efficiency over the number of ranks.

use super::Document;
use super::published::Published;
use super::run::Runs;
use lab::numbers;
use lab::plot::{Axis, Chart};
use std::path::Path;

impl Document {
    /// What was run, else what was computed.
    pub(super) fn draw(&self, path: &Path) -> lab::Result<()> {
        match (&self.runs, self.published.first()) {
            (Some(runs), _) => runs.chart(&self.clock).write(path),
            (None, Some(published)) => published.chart().write(path),
            (None, None) => Ok(()),
        }
    }
}

impl Runs {
    /// Lines are the formula's, points the clock's.
    pub(in crate::commands) fn chart(&self, clock: &str) -> Chart {
        let title = format!("{}: {} tokens per rank, {clock}", self.model, self.tokens);
        let chart = Chart::new(title, Axis::log2("ranks"), Axis::log("efficiency"));
        let mut names: Vec<&str> = self.rows.iter().map(|row| row.link.as_str()).collect();
        names.dedup();
        names.into_iter().fold(chart, |chart, name| {
            let of_link = || self.rows.iter().filter(|row| row.link == name);
            chart
                .line(name, of_link().map(|row| (row.ranks as f64, row.predicted_efficiency)))
                .points("", of_link().map(|row| (row.ranks as f64, row.efficiency)))
                .in_the_same_colour()
        })
    }
}

impl Published {
    pub(in crate::commands) fn chart(&self) -> Chart {
        let title = format!(
            "{} on {}: {} tokens per rank and step, gradients in 16 bits",
            self.model,
            self.gpu,
            numbers::grouped(self.tokens)
        );
        let chart = Chart::new(title, Axis::log2("ranks"), Axis::linear("efficiency"));
        self.links.iter().fold(chart, |chart, row| {
            chart.line(&row.link, row.scaling.iter().map(|point| (point.ranks as f64, point.efficiency)))
        })
    }
}
