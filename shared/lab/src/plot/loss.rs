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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_curve_shows_training_and_the_level_of_held_out_text() {
        let path = tempfile::tempdir().unwrap().path().join("loss.svg");
        loss_curve("Loss", (0..9).map(|step| (step, 7.0 - step as f64)), Some(0.8125)).write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("training") && text.contains("held out: 0.81"), "{text}");
    }
}
