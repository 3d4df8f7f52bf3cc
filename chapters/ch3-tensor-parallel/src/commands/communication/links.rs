//! What the reductions of a published model cost over several links, beside its arithmetic.

use candle_core::DType;
use collective::Link;
use decoder::shape::hardware::{Hardware, Precision};
use decoder::shape::{published, six_n_flops};
use lab::plot::{Axis, Chart};
use lab::{Table, numbers};
use serde_json::{Value, json};

/// A model that everybody splits, on a device that everybody splits it over.
const MODEL: &str = "Llama 3.1 70B";
const GPU: &str = "H100";
/// Of the device's peak and bandwidth, as large products reach.
const EFFICIENCY: f64 = 0.5;
/// Tokens of a training step on the group, and sequences that are generated at once.
const TRAINED: u64 = 4096;
const GENERATED: u64 = 20;
const LINKS: [Link; 3] = [Link::NVLINK, Link::PCIE, Link::ETHERNET];
const RANKS: [u64; 4] = [2, 4, 8, 16];

/// One number of ranks over one link.
pub(in crate::commands) struct Case {
    link: Link,
    tp: u64,
    training: Time,
    decode: Time,
}

/// Seconds of one step.
#[derive(Clone, Copy)]
struct Time {
    computing: f64,
    reducing: f64,
}

impl Time {
    /// Share of the step in which ranks wait for reductions: nothing else can be computed meanwhile, the next product needs the sum.
    fn waiting(self) -> f64 {
        self.reducing / (self.computing + self.reducing)
    }
}

/// A ring all-reduce of `bytes` among `ranks`: 2·(ranks − 1) messages of one chunk each.
fn all_reduce(link: Link, ranks: u64, bytes: u64) -> f64 {
    let messages = 2 * (ranks - 1);
    messages as f64 * (bytes as f64 / ranks as f64 / link.bandwidth + link.latency)
}

/// All of them.
pub(in crate::commands) fn cases() -> decoder::Result<Vec<Case>> {
    let (shape, gpu) = (published(MODEL)?.shape, Hardware::named(GPU)?);
    let (layers, hidden, element) = (shape.layer_count()?, shape.hidden.get(), DType::BF16.size_in_bytes() as u64);
    let (peak, bandwidth) = (gpu.peak(Precision::Bf16)? as f64, gpu.bandwidth.get() as f64);
    let flops = six_n_flops(shape.parameters()?.total(), TRAINED)? as f64;
    let read = shape.decode_weight_bytes(DType::BF16)? as f64;
    let case = |(link, tp): (Link, u64)| {
        let reductions = |count: u64, tokens: u64| count as f64 * all_reduce(link, tp, tokens * hidden * element);
        Case {
            link,
            tp,
            // Two in the forward, two in the backward; embedding and head one each.
            training: Time {
                computing: flops / (tp as f64 * peak * EFFICIENCY),
                reducing: reductions(4 * layers + 2, TRAINED),
            },
            decode: Time {
                computing: read / (tp as f64 * bandwidth * EFFICIENCY),
                reducing: reductions(2 * layers + 1, GENERATED),
            },
        }
    };
    Ok(LINKS.into_iter().flat_map(|link| RANKS.map(|tp| (link, tp))).map(case).collect())
}

/// As a table.
pub(in crate::commands) fn table(cases: &[Case]) -> Table {
    let header = ["link", "tp", "training: computing", "reducing", "waits", "decode: computing", "reducing", "waits"];
    let rows = cases.iter().map(|case| {
        let Case { link, tp, training, decode } = case;
        [
            link.name.to_owned(),
            tp.to_string(),
            numbers::seconds(training.computing),
            numbers::seconds(training.reducing),
            numbers::percent(training.waiting()),
            numbers::seconds(decode.computing),
            numbers::seconds(decode.reducing),
            numbers::percent(decode.waiting()),
        ]
    });
    rows.fold(Table::new(header), Table::row)
}

/// The table with what it is of.
pub(in crate::commands) fn text(cases: &[Case]) -> String {
    format!(
        "{MODEL} in bf16 on {GPU}s at {} of their roofline, one group: a training step of {TRAINED} tokens, and one token for each of \
         {GENERATED} users\n\n{}",
        numbers::percent(EFFICIENCY),
        table(cases)
    )
}

/// The share of a training step that is spent waiting, over one link.
pub(in crate::commands) fn waiting(cases: &[Case], link: &str, tp: u64) -> Option<f64> {
    let case = cases.iter().find(|case| case.link.name == link && case.tp == tp)?;
    Some(case.training.waiting())
}

/// The share of a training step that is spent waiting.
pub(in crate::commands) fn chart(cases: &[Case]) -> Chart {
    let title = format!("{MODEL}: share of a training step spent in reductions");
    let chart = Chart::new(title, Axis::log2("tensor-parallel ranks"), Axis::linear("share of the step"));
    LINKS.iter().fold(chart, |chart, link| {
        let points = cases.iter().filter(|case| case.link.name == link.name);
        chart.line(link.name, points.map(|case| (case.tp as f64, case.training.waiting())).collect::<Vec<_>>())
    })
}

/// For `--json`.
pub(in crate::commands) fn document(cases: &[Case]) -> Vec<Value> {
    let time =
        |time: Time| json!({ "computing": time.computing, "reducing": time.reducing, "waiting": time.waiting() });
    let one = |case: &Case| json!({ "link": case.link.name, "tp": case.tp, "training": time(case.training), "decode": time(case.decode) });
    cases.iter().map(one).collect()
}
