//! The forward of a decoder once more, in the plainest f64 loops: no tensors, no blocks, no cache, one sequence.

use super::models::Model;
use super::tolerance::numbers;
use decoder::config::{Activation, QkNorm};
use std::collections::HashMap;

/// Logits `[seq][vocab]` of one sequence.
pub(crate) fn logits(model: &Model, ids: &[u32]) -> Vec<Vec<f64>> {
    let config = &model.config;
    let weights: HashMap<String, Vec<f64>> =
        model.tensors().into_iter().map(|(name, tensor)| (name, numbers(&tensor))).collect();
    let embedding = &weights["model.embed_tokens.weight"];
    let row = |id: u32| embedding[id as usize * config.hidden..][..config.hidden].to_vec();
    let mut x: Vec<Vec<f64>> = ids.iter().map(|&id| row(id)).collect();
    for layer in 0..config.layers {
        let here = Layer { model, weights: &weights, prefix: format!("model.layers.{layer}"), layer };
        x = here.add(&x, here.attention(&here.norm(&x, "input_layernorm")));
        x = here.add(&x, here.feed_forward(&here.norm(&x, "post_attention_layernorm")));
    }
    let head = weights.get("lm_head.weight").unwrap_or(embedding);
    let final_norm = &weights["model.norm.weight"];
    x.iter().map(|x| times(&rms_norm(x, final_norm, config.norm_eps), head)).collect()
}

struct Layer<'a> {
    model: &'a Model,
    weights: &'a HashMap<String, Vec<f64>>,
    prefix: String,
    layer: usize,
}

impl Layer<'_> {
    fn weight(&self, name: &str) -> Option<&Vec<f64>> {
        self.weights.get(&format!("{}.{name}", self.prefix))
    }

    fn add(&self, x: &[Vec<f64>], y: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        x.iter().zip(y).map(|(x, y)| x.iter().zip(y).map(|(x, y)| x + y).collect()).collect()
    }

    fn norm(&self, x: &[Vec<f64>], name: &str) -> Vec<Vec<f64>> {
        let weight = self.weight(&format!("{name}.weight")).unwrap();
        x.iter().map(|x| rms_norm(x, weight, self.model.config.norm_eps)).collect()
    }

    fn project(&self, x: &[f64], name: &str) -> Vec<f64> {
        let mut y = times(x, self.weight(&format!("{name}.weight")).unwrap());
        if let Some(bias) = self.weight(&format!("{name}.bias")) {
            y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
        y
    }

    /// Heads of a projection, normed and rotated: `[seq][heads][head_dim]`.
    fn heads(&self, x: &[Vec<f64>], projection: &str, norm: Option<&str>) -> Vec<Vec<Vec<f64>>> {
        let config = &self.model.config;
        let head = |position: usize, head: &[f64]| match norm {
            None => head.to_vec(),
            Some(norm) if config.qk_norm == QkNorm::PerHead => {
                let weight = self.weight(&format!("{norm}.weight")).unwrap();
                self.rotate(rms_norm(head, weight, config.norm_eps), position)
            }
            Some(_) => self.rotate(head.to_vec(), position),
        };
        let token = |(position, x): (usize, &Vec<f64>)| {
            self.project(x, projection).chunks(config.head_dim).map(|values| head(position, values)).collect()
        };
        x.iter().enumerate().map(token).collect()
    }

    fn rotate(&self, head: Vec<f64>, position: usize) -> Vec<f64> {
        let config = &self.model.config;
        let frequencies = config.rope.frequencies(config.head_dim);
        let half = config.head_dim / 2;
        let mut out = head.clone();
        for pair in 0..half {
            let angle = position as f64 * frequencies.inverse[pair];
            let (sin, cos) = (angle.sin() * frequencies.factor, angle.cos() * frequencies.factor);
            out[pair] = head[pair] * cos - head[pair + half] * sin;
            out[pair + half] = head[pair + half] * cos + head[pair] * sin;
        }
        out
    }

    fn attention(&self, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let config = &self.model.config;
        let q = self.heads(x, "self_attn.q_proj", Some("self_attn.q_norm"));
        let k = self.heads(x, "self_attn.k_proj", Some("self_attn.k_norm"));
        let v = self.heads(x, "self_attn.v_proj", None);
        let window = config.windows[self.layer].unwrap_or(usize::MAX);
        let token = |query: usize| {
            let mut out = Vec::new();
            for (head, q) in q[query].iter().enumerate() {
                let key_head = head * config.kv_heads / config.heads;
                let seen: Vec<usize> = (0..=query).filter(|key| query - key < window).collect();
                let scale = (config.head_dim as f64).sqrt();
                let scores: Vec<f64> = seen.iter().map(|&t| dot(q, &k[t][key_head]) / scale).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let sum: f64 = powers.iter().sum();
                let value = |i: usize| seen.iter().zip(&powers).map(|(&t, p)| p / sum * v[t][key_head][i]).sum::<f64>();
                out.extend((0..config.head_dim).map(value));
            }
            self.project(&out, "self_attn.o_proj")
        };
        (0..x.len()).map(token).collect()
    }

    fn feed_forward(&self, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let token = |x: &Vec<f64>| {
            let (gate, up) = (self.project(x, "mlp.gate_proj"), self.project(x, "mlp.up_proj"));
            let gated: Vec<f64> =
                gate.iter().zip(up).map(|(&gate, up)| activated(self.model.config.activation, gate) * up).collect();
            self.project(&gated, "mlp.down_proj")
        };
        x.iter().map(token).collect()
    }
}

fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1. + (-x).exp()),
        Activation::Gelu => x * normal_cdf(x),
        Activation::GeluTanh => {
            0.5 * x * (1. + ((2. / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        }
        other => panic!("no reference for {other:?}"),
    }
}

/// Φ by its Taylor series at 0 (Marsaglia, 2004), to full precision for the small arguments here.
fn normal_cdf(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 1.);
    while term.abs() > 1e-18 {
        n += 2.;
        term *= x * x / n;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / (2. * std::f64::consts::PI).sqrt()
}

fn rms_norm(x: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let rms = (dot(x, x) / x.len() as f64 + epsilon).sqrt();
    x.iter().zip(weight).map(|(x, w)| x / rms * w).collect()
}

fn times(x: &[f64], matrix: &[f64]) -> Vec<f64> {
    matrix.chunks(x.len()).map(|row| dot(x, row)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
