//! Every entry of `assets/published.json`, checked as exactly as its source prints it.

mod devices;
mod training;

use super::*;
use serde_json::Value;

const FIGURES: &str = include_str!("../../../../assets/published.json");

const GIB: f64 = (1u64 << 30) as f64;

#[test]
fn predictions_equal_the_published_figures() {
    let figures: Value = serde_json::from_str(FIGURES).unwrap();
    let entries = figures["entries"].as_array().unwrap();
    assert!(entries.len() >= 70, "{}", entries.len());
    for value in entries {
        check(&Entry(value));
    }
}

/// One entry: what went in, what was printed.
struct Entry<'a>(&'a Value);

impl Entry<'_> {
    fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    fn find(&self, key: &str) -> Option<&Value> {
        ["inputs", "expected", "computed"].iter().find_map(|part| self.0[part].get(key))
    }

    fn f64(&self, key: &str) -> f64 {
        self.find(key).and_then(Value::as_f64).unwrap_or_else(|| panic!("{}: {key}", self.id()))
    }

    fn u64(&self, key: &str) -> u64 {
        self.find(key).and_then(Value::as_u64).unwrap_or_else(|| panic!("{}: {key}", self.id()))
    }

    fn computed(&self, key: &str) -> Option<u64> {
        self.0["computed"].get(key).and_then(Value::as_u64)
    }

    /// `found` is the number under `key`, to within `relative`.
    fn close(&self, key: &str, found: f64, relative: f64) {
        let expected = self.f64(key);
        assert!((found / expected - 1.0).abs() <= relative, "{}: {key}: {found}, published {expected}", self.id());
    }

    /// `found` is the number under `key`, to within `absolute`.
    fn near(&self, key: &str, found: f64, absolute: f64) {
        let expected = self.f64(key);
        assert!((found - expected).abs() <= absolute, "{}: {key}: {found}, published {expected}", self.id());
    }

    /// `found` is the integer under `key`.
    fn exact(&self, key: &str, found: u64) {
        assert_eq!(found, self.u64(key), "{}: {key}", self.id());
    }

    /// The shape in `assets/models.toml` that the entry is about.
    fn shape(&self) -> ModelShape {
        match self.id() {
            "kv.deepseek-v3" | "params.deepseek-v3" => shape("DeepSeek-V3"),
            "kv.llama2-70b-mha" => with_kv_heads(shape("Llama 2 70B"), 64),
            "kv.llama3-8b-mqa" => with_kv_heads(shape("Llama 3.1 8B"), 1),
            "params.llama3-70b" => shape("Llama 3 70B"),
            _ => shape(self.find("model").and_then(Value::as_str).unwrap()),
        }
    }
}

fn with_kv_heads(mut shape: ModelShape, number: u64) -> ModelShape {
    if let Attention::Grouped { kv_heads, .. } = &mut shape.attention {
        *kv_heads = Size::new(number).unwrap();
    }
    shape
}

/// GPT's shape, as Megatron-LM's papers use it.
fn gpt(layers: u64, hidden: u64, heads: u64, vocab: u64) -> ModelShape {
    let (width, head_dim) = (4 * hidden, hidden / heads);
    let text = format!(
        "vocab = {vocab}\nhidden = {hidden}\ncontext = 2048\npositions = 2048\nnorm = 'layer'\ntied = true\n\
         attention.grouped = {{ heads = {heads}, kv_heads = {heads}, head_dim = {head_dim}, qkv_bias = true, output_bias = true }}\n\
         layers = [{{ count = {layers}, feed_forward.dense = {{ width = {width}, matrices = 'plain', bias = true }} }}]"
    );
    ModelShape::from_toml(&text).unwrap()
}

fn check(entry: &Entry<'_>) {
    let id = entry.id();
    match id.split_once('.').map_or(id, |(category, _)| category) {
        "params" => parameters(entry),
        "kv" => kv_cache(entry),
        "zero" => training::training_state(entry),
        "act" => training::activations(entry),
        "megatron" | "train" => training::training_flops(entry),
        "hw" | "roof" => devices::device(entry),
        "inf" => devices::inference(entry),
        "trap" => traps(entry),
        _ => panic!("no check for {id}"),
    }
}

fn parameters(entry: &Entry<'_>) {
    let shape = entry.shape();
    let (held, active) = (shape.parameters().unwrap(), shape.active_parameters().unwrap());
    let layers = entry.u64("layers");
    entry.exact("total", held.total());
    let last = layers - 1;
    let norms = held.norms / (2 * layers + 1) * 2;
    for (key, found) in [
        ("non_embedding", held.non_embedding()),
        ("attn_per_layer", held.attention / layers),
        ("mla_per_layer", held.attention / layers),
        ("mlp_per_layer", held.feed_forward / layers),
        ("expert", held.feed_forward / layers / entry.find("experts").and_then(Value::as_u64).unwrap_or(1)),
        ("router", held.router / layers),
        ("embed", held.embedding),
        ("head", held.head),
        ("active_incl_embed_head", active.total()),
        ("active_excl_input_embed", active.total() - active.embedding),
        ("active_non_embedding", active.non_embedding()),
    ] {
        if let Some(expected) = entry.computed(key) {
            assert_eq!(found, expected, "{}: {key}", entry.id());
        }
    }
    let layer = shape.layer_parameters(last).unwrap();
    if entry.find("ffn").is_some() {
        assert_eq!(layer, (held.attention + held.feed_forward) / layers + norms, "{}", entry.id());
    }
    for (key, found, relative) in [
        ("published_total_B", held.total(), 0.005),
        ("published_active_B", active.total(), 0.015),
        ("weights_readme_active_B", active.total() - active.embedding, 0.005),
        ("card_total_B", held.total(), 0.015),
        ("card_active_B", active.total(), 0.017),
        ("card_non_embedding_B", held.non_embedding(), 0.015),
    ] {
        if entry.find(key).is_some() {
            entry.close(key, found as f64 / 1e9, relative);
        }
    }
    if entry.find("paper_table_D1_M").is_some() {
        entry.near("paper_table_D1_M", held.total() as f64 / 1e6, 5.0);
    }
}

fn kv_cache(entry: &Entry<'_>) {
    let shape = entry.shape();
    let dtype = DType::BF16;
    assert_eq!(entry.u64("bytes"), 2);
    let bytes = shape.kv_bytes_per_token(dtype).unwrap();
    entry.exact("bytes_per_token", bytes);
    let long = shape.kv_bytes(32768, 1, dtype).unwrap();
    entry.near("GiB_at_32768", long as f64 / GIB, 0.00005);
    if entry.find("published_KB").is_some() {
        entry.near("published_KB", bytes as f64 / 1e3, 0.0);
    }
    if entry.find("request_2048_GB").is_some() {
        // 1.678 GB are 1.56 GiB; the paper prints 1.6.
        entry.close("request_2048_GB", shape.kv_bytes(2048, 1, dtype).unwrap() as f64 / GIB, 0.03);
    }
    if entry.find("ratio_to_gqa").is_some() {
        let grouped = with_kv_heads(shape.clone(), 8).kv_bytes_per_token(dtype).unwrap();
        let every = with_kv_heads(shape, 32).kv_bytes_per_token(dtype).unwrap();
        entry.near("ratio_to_gqa", bytes as f64 / grouped as f64, 0.0);
        entry.exact("mha_ratio", every / grouped);
    }
}

fn traps(entry: &Entry<'_>) {
    if entry.id().starts_with("trap.vocab-pad") {
        let multiple = entry.u64("make_vocab_size_divisible_by") * entry.u64("tp");
        entry.exact("padded", padded_vocab(entry.u64("vocab"), multiple).unwrap());
    } else {
        let shape = entry.shape();
        let layer = shape.layer_parameters(0).unwrap();
        entry.exact("layer_params", layer);
        let head = shape.head_operation(1, DType::F32).unwrap().flops / 2;
        entry.exact("vocab_x_hidden", head);
        entry.close("lm_head_cost_in_layer_equivalents", head as f64 / layer as f64, 0.01);
    }
}
