//! The loss over a training run.

use super::{Axis, Chart};

/// Loss in nats per token, by step; with the loss of text that was not trained on, as a level, if it was measured.
pub fn loss_curve(
    title: impl Into<String>,
    losses: impl IntoIterator<Item = (u64, f64)>,
    held_out: Option<f64>,
) -> Chart {
    let points = losses.into_iter().map(|(step, loss)| (step as f64, loss));
    let chart = Chart::new(title, Axis::linear("step"), Axis::linear("loss (nats per token)")).line("training", points);
    match held_out {
        Some(loss) => chart.level(format!("held out: {loss:.3}"), loss),
        None => chart,
    }
}
