//! Exercise 4.1: which layers are on which stage. The check tries models in which a simple rule is wrong.

use crate::core::Cuts;
use crate::stages::LayerCosts;
use crate::{homework, stages};
use decoder::random::Rng;
use lab::exercises::{Bug, Diagnosis, Exercise};
use std::ops::Range;

/// The table.
pub const CUTS: Exercise<Cuts> = Exercise {
    id: "4.1",
    title: "the layers of a stage",
    reference: stages::balanced_cuts,
    homework: homework::balanced_cuts,
    stub: super::stub(&["balanced_cuts"]),
    hints: &[
        "A pipeline is as fast as its slowest stage. Which numbers decide how slow the first stage is, and the last?",
        "`costs.chunk(layers, position, chunks)` is the cost of a chunk, with the embedding at position 0 and the head at the last one.",
        "How cheap can the most expensive of k chunks over the first n layers be? Try every place for the last cut: \
         best(k, n) = min over b of max(best(k - 1, b), cost of b..n). Keep b, and go back from the end.",
    ],
    bugs: &[
        Bug {
            name: "stages-layer-lost",
            what: "layers that do not divide are on no stage",
            implementation: layer_lost,
            diagnosis: "on no stage",
        },
        Bug {
            name: "stages-remainder-to-last",
            what: "the last stage gets all layers that do not divide",
            implementation: remainder_to_last,
            diagnosis: "all layers cost the same",
        },
        Bug {
            name: "stages-head-free",
            what: "layers are balanced as if the head cost nothing",
            implementation: head_free,
            diagnosis: "the head is a matrix product",
        },
        Bug {
            name: "stages-greedy",
            what: "a stage is filled up to the average, then the next one begins",
            implementation: greedy,
            diagnosis: "some layers cost more",
        },
    ],
    check,
};

fn check(cuts: &Cuts) -> Result<(), Diagnosis> {
    let even = |layers: usize, head: f64| LayerCosts { embedding: 0.0, layers: vec![1.0; layers], head };
    for (layers, chunks) in [(8, 4), (10, 4), (7, 3), (5, 5)] {
        judge(cuts, &even(layers, 0.0), chunks, "all layers cost the same")?;
    }
    for (layers, chunks, head) in [(12, 4, 3.0), (12, 3, 6.0), (16, 8, 1.5)] {
        judge(cuts, &even(layers, head), chunks, &format!("the head is a matrix product, as costly as {head} layers"))?;
    }
    let mut rng = Rng::new(20_241_130);
    for _ in 0..40 {
        let chunks = 2 + (rng.bits() % 4) as usize;
        let layers = (0..chunks + (rng.bits() % 7) as usize).map(|_| 1.0 + (rng.bits() % 9) as f64).collect();
        let costs = LayerCosts { embedding: (rng.bits() % 3) as f64, layers, head: (rng.bits() % 3) as f64 };
        judge(cuts, &costs, chunks, "some layers cost more than others")?;
    }
    Ok(())
}

fn judge(cuts: &Cuts, costs: &LayerCosts, chunks: usize, why: &str) -> Result<(), Diagnosis> {
    let layers = costs.layers.len();
    let found = cuts(costs, chunks);
    let wrong = |text: String| Err(Diagnosis::new(format!("{layers} layers on {chunks} stages: {found:?}.\n{text}")));
    if found.len() != chunks {
        return wrong(format!("There are {} parts.", found.len()));
    }
    let mut next = 0;
    for (stage, chunk) in found.iter().enumerate() {
        if chunk.start != next || chunk.end <= chunk.start {
            return wrong(format!("Stage {stage} must begin at layer {next} and have at least one layer."));
        }
        next = chunk.end;
    }
    if next != layers {
        return wrong(format!("Layer {next} is on no stage, or does not exist."));
    }
    let largest = |cut: &[Range<usize>]| {
        let costs = cut.iter().enumerate().map(|(position, layers)| costs.chunk(layers.clone(), position, chunks));
        costs.fold(0.0, f64::max)
    };
    let (own, best) = (largest(&found), largest(&stages::balanced_cuts(costs, chunks)));
    Diagnosis::unless(own <= best * (1.0 + 1e-9), || {
        format!(
            "{layers} layers on {chunks} stages: {found:?}.\nThe most expensive stage costs {own}; {best} is possible. Here {why}."
        )
    })
}

fn layer_lost(costs: &LayerCosts, chunks: usize) -> Vec<Range<usize>> {
    let each = costs.layers.len() / chunks;
    (0..chunks).map(|chunk| chunk * each..(chunk + 1) * each).collect()
}

fn remainder_to_last(costs: &LayerCosts, chunks: usize) -> Vec<Range<usize>> {
    let (layers, each) = (costs.layers.len(), costs.layers.len() / chunks);
    (0..chunks).map(|chunk| chunk * each..if chunk + 1 == chunks { layers } else { (chunk + 1) * each }).collect()
}

fn head_free(costs: &LayerCosts, chunks: usize) -> Vec<Range<usize>> {
    stages::balanced_cuts(&LayerCosts { head: 0.0, ..costs.clone() }, chunks)
}

fn greedy(costs: &LayerCosts, chunks: usize) -> Vec<Range<usize>> {
    // Right where layers are equal, so that only unequal ones tell.
    if costs.layers.iter().all(|cost| *cost == costs.layers[0]) {
        return stages::balanced_cuts(costs, chunks);
    }
    let total = costs.chunk(0..costs.layers.len(), 0, 1);
    let (mut parts, mut begin) = (Vec::new(), 0);
    for chunk in 0..chunks {
        let latest = costs.layers.len() - (chunks - 1 - chunk);
        let mut end = begin + 1;
        while end < latest && costs.chunk(begin..end, chunk, chunks) < total / chunks as f64 {
            end += 1;
        }
        parts.push(begin..if chunk + 1 == chunks { costs.layers.len() } else { end });
        begin = end;
    }
    parts
}
