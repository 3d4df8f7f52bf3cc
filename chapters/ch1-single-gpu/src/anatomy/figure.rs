//! A decoder layer in text: what flows where, in which shape.

use super::Passage;
use decoder::Config;

/// The layer, top to bottom. Left the residual stream, right the two blocks; a dotted line is a split point.
pub(super) fn draw(config: &Config, layer: usize, passage: &Passage) -> String {
    let Config { hidden, heads, kv_heads, head_dim, ffn, .. } = config;
    let tokens = format!("{}, {}", passage.batch, passage.new);
    let [stream, q, kv, wide] = [
        format!("[{tokens}, {hidden}]"),
        format!("[{tokens}, {heads}, {head_dim}]"),
        format!("[{tokens}, {kv_heads}, {head_dim}]"),
        format!("[{tokens}, {ffn}]"),
    ];
    let keys = passage.past + passage.new;
    let line = |left: &str, right: String| format!("{left:<28}{right}").trim_end().to_owned();
    [
        format!("Layer {layer} of {}, [batch, seq, …]:", config.layers),
        String::new(),
        line("ids", format!("[{tokens}]")),
        line(" ┆ Vocabulary::embed", String::new()),
        line(" x", stream.clone()),
        line(" ├─────────╮", String::new()),
        line(" │       norm", stream.clone()),
        line(" │         ┆ Boundary::enter", String::new()),
        line(" │     q   k   v", format!("q {q}, k and v {kv}")),
        line(" │     rotate q, k", String::new()),
        line(" │         ┆ Attend::attend", format!("each query sees the keys up to its own position, {keys} at most")),
        line(" │       softmax(q·kᵀ)·v", q.clone()),
        line(" │         o", stream.clone()),
        line(" │         ┆ Boundary::leave", String::new()),
        line("(+)────────╯", stream.clone()),
        line(" ├─────────╮", String::new()),
        line(" │       norm", stream.clone()),
        line(" │         ┆ Boundary::enter", String::new()),
        line(" │     gate   up", format!("{wide} each")),
        line(" │    act(gate) · up", wide.clone()),
        line(" │        down", stream.clone()),
        line(" │         ┆ Boundary::leave", String::new()),
        line("(+)────────╯", stream),
        line(" ┆ Vocabulary::logits", "(behind the last layer and the final norm)".to_owned()),
    ]
    .join("\n")
}
