//! The pictures of `cargo ch1 kv`.

use super::{Document, Figure};
use crate::kv::Steps;
use decoder::Error;
use decoder::shape::ModelShape;
use lab::plot::{Axis, Chart};
use std::path::Path;

/// Published models whose lines do not lie on each other.
const DRAWN: [&str; 5] = ["GPT-3 175B", "Llama 2 7B", "Llama 3 70B", "Mixtral 8x7B", "DeepSeek-V3"];

pub(super) fn draw(figure: Figure, document: &Document, shape: &ModelShape, path: &Path) -> anyhow::Result<()> {
    let chart = match figure {
        Figure::Flops => flops_chart(&document.steps, shape)?,
        Figure::Time => time_chart(document),
        Figure::Published => published_chart(document)?,
    };
    Ok(chart.write(path)?)
}

/// FLOPs of a decode step over the context. Lines are formulas, drawn beyond what was run so that their slopes show; points are `steps`.
///
/// # Errors
/// A number does not fit in 64 bits.
pub fn flops_chart(steps: &[Steps], shape: &ModelShape) -> anyhow::Result<Chart> {
    let contexts: Vec<u64> = (3..=15).map(|power| 1 << power).collect();
    type Formula<'a> = &'a dyn Fn(u64) -> Result<u128, Error>;
    let line = |flops: Formula<'_>| {
        contexts.iter().map(|&context| Ok((context as f64, flops(context)? as f64))).collect::<Result<Vec<_>, Error>>()
    };
    let points = |flops: fn(&Steps) -> u64| {
        steps.iter().map(move |steps| (steps.context as f64, flops(steps) as f64)).collect::<Vec<_>>()
    };
    let title = "FLOPs of one decode step: formulas (lines) and counted (points)";
    Ok(Chart::new(title, Axis::log2("context (tokens)"), Axis::log("FLOP"))
        .line("without the cache", line(&|n| Ok(shape.decode_step_without_cache_flops(1, n)?.total()))?)
        .points("counted", points(|steps| steps.uncached.counted.total()))
        .in_the_same_colour()
        .line("with the cache", line(&|n| Ok(shape.decode_step_flops(1, n)?.total()))?)
        .points("counted", points(|steps| steps.cached.counted.total()))
        .in_the_same_colour()
        .line("its attention, O(n)", line(&|n| Ok(shape.decode_step_flops(1, n)?.attention))?)
        .points("counted", points(|steps| steps.cached.counted.attention))
        .in_the_same_colour())
}

fn time_chart(document: &Document) -> Chart {
    let points = |seconds: fn(&Steps) -> f64| {
        document.steps.iter().map(move |steps| (steps.context as f64, 1e3 * seconds(steps))).collect::<Vec<_>>()
    };
    let (without, with) = (points(|steps| steps.uncached.timing.median), points(|steps| steps.cached.timing.median));
    Chart::new("Time of one decode step, measured", Axis::log2("context (tokens)"), Axis::log("ms"))
        .line("without the cache", without.clone())
        .points("median", without)
        .in_the_same_colour()
        .line("with the cache", with.clone())
        .points("median", with)
        .in_the_same_colour()
}

fn published_chart(document: &Document) -> anyhow::Result<Chart> {
    let mut chart = Chart::new("KV cache of one sequence, 16 bits", Axis::log2("context (tokens)"), Axis::log("GB"));
    for row in document.published.iter().filter(|row| DRAWN.contains(&&*row.model)) {
        let points = (10..=17).map(|power| {
            let context = f64::from(1 << power);
            (context, context * row.bytes_per_token as f64 / 1e9)
        });
        chart = chart.line(row.model.clone(), points);
    }
    Ok(chart.level("H100, 80 GB", 80.0))
}
