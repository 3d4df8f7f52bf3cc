//! Cutting a row of layers so that the most expensive chunk is as cheap as possible.

use super::LayerCosts;
use std::ops::Range;

/// `positions` chunks of at least one layer each, with the smallest largest cost; of the cuts that have it, the most even one (least
/// sum of squares). There must be at least as many layers as chunks.
pub fn balanced_cuts(costs: &LayerCosts, positions: usize) -> Vec<Range<usize>> {
    let largest = best(costs, positions, f64::max, f64::INFINITY).0;
    // A little more than the largest: costs are sums of floating-point numbers.
    best(costs, positions, |sum, cost| sum + cost * cost, largest * (1.0 + 1e-12)).1
}

/// The cut with the smallest `add(add(0, cost of chunk 0), cost of chunk 1)…` whose chunks each cost at most `limit`, by dynamic
/// programming over (chunks so far, layers so far).
fn best(costs: &LayerCosts, positions: usize, add: impl Fn(f64, f64) -> f64, limit: f64) -> (f64, Vec<Range<usize>>) {
    let layers = costs.layers.len();
    let mut sums = vec![0.0; layers + 1];
    for (index, cost) in costs.layers.iter().enumerate() {
        sums[index + 1] = sums[index] + cost;
    }
    let mut row = vec![f64::INFINITY; layers + 1];
    row[0] = 0.0;
    // Where the last chunk begins, per number of chunks and layers.
    let mut begins = vec![vec![0; layers + 1]; positions];
    for (position, begins) in begins.iter_mut().enumerate() {
        let ends = costs.chunk(0..0, position, positions);
        let mut next = vec![f64::INFINITY; layers + 1];
        for end in position + 1..=layers {
            for begin in position..end {
                let cost = ends + sums[end] - sums[begin];
                let total = add(row[begin], cost);
                if cost <= limit && total < next[end] {
                    (next[end], begins[end]) = (total, begin);
                }
            }
        }
        row = next;
    }
    let mut end = layers;
    let mut chunks: Vec<Range<usize>> = (0..positions)
        .rev()
        .map(|position| {
            let begin = begins[position][end];
            let chunk = begin..end;
            end = begin;
            chunk
        })
        .collect();
    chunks.reverse();
    (row[layers], chunks)
}
