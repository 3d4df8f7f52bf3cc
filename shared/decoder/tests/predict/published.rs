//! Every entry of `assets/published.json`, checked as exactly as its source prints it.

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
        "zero" => training_state(entry),
        "act" => activations(entry),
        "megatron" | "train" => training_flops(entry),
        "hw" | "roof" => device(entry),
        "inf" => inference(entry),
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

fn training_state(entry: &Entry<'_>) {
    match entry.id() {
        "zero.table1.7.5B.dp1" => {
            let bytes = entry.u64("params") * StateBytes::ADAMW_MIXED.total();
            entry.exact("P_os", bytes / 1_000_000_000);
            assert_eq!(StateBytes::ADAMW_MIXED.optimiser, entry.u64("K"));
        }
        "zero.16bytes" => {
            entry.exact("GB", entry.u64("params") * StateBytes::ADAMW_MIXED.total() / 1_000_000_000);
            entry.exact("fp16_params_GB", entry.u64("params") * StateBytes::ADAMW_MIXED.weights / 1_000_000_000);
        }
        "zero.megatron-distopt.d1" => {
            entry.exact("bf16p_fp32g_nondist", StateBytes::ADAMW_MIXED_F32_GRADIENTS.total());
            entry.exact("fp16p_fp16g_nondist", StateBytes::ADAMW_MIXED_COPIED_GRADIENTS.total());
            entry.exact("fp32p_fp32g_nondist", StateBytes::ADAMW_F32.total());
        }
        id => panic!("no check for {id}"),
    }
}

fn activations(entry: &Entry<'_>) {
    let kept = |recompute| Activations { dtype: DType::F16, dropout: true, recompute };
    match entry.id() {
        "act.table5.22B" | "act.table5.175B" => {
            // Model FLOPs utilisation: the published time of an iteration against the peak of all GPUs.
            let shape = gpt(entry.u64("layers"), entry.u64("hidden"), entry.u64("heads"), entry.u64("vocab"));
            let batch = entry.u64("global_batch");
            let step = shape.training_step_flops(batch, entry.u64("seq"), Pairs::Square, Recompute::Nothing).unwrap();
            let peak = entry.f64("iter_s") * entry.f64("gpus") * entry.f64("peak");
            entry.near("mfu", step.total() as f64 / peak, 0.006);
        }
        "act.table2.22B" | "act.table2.175B" => {
            let shape = gpt(entry.u64("layers"), entry.u64("hidden"), entry.u64("heads"), 51200);
            let per_layer = entry.find("per_layer_bytes").unwrap();
            for (key, recompute) in [("none", Recompute::Nothing), ("full", Recompute::Layer)] {
                let (batch, tokens) = (entry.u64("micro_batch"), entry.u64("seq"));
                let bytes = shape.layer_activation_bytes(0, batch, tokens, kept(recompute)).unwrap();
                assert_eq!(bytes, per_layer[key].as_u64().unwrap(), "{}: {key}", entry.id());
            }
        }
        "act.5as-over-h" => {
            for (name, key) in [("GPT-3 175B", "gpt3"), ("MT-NLG 530B", "mtnlg")] {
                let shape = shape(name);
                let bytes = |recompute| shape.layer_activation_bytes(0, 1, 2048, kept(recompute)).unwrap() as f64;
                let weights = bytes(Recompute::Nothing) - bytes(Recompute::Attention);
                entry.near(&format!("{key}_5as_h"), weights / (2048 * shape.hidden.get()) as f64, 0.0);
                entry.near(&format!("{key}_saving"), weights / bytes(Recompute::Nothing), 0.01);
                // The paper's overhead is one more attention, relative to the layers' other products of one forward.
                let forward = shape.prefill_flops(1, 2048, Pairs::Square, Logits::All).unwrap();
                let others = (forward.projections + forward.feed_forward) as f64;
                entry.near(&format!("{key}_flops_overhead"), forward.attention as f64 / others, 0.0015);
            }
        }
        "act.stas-llama31-8b" => {
            // Its 28 copies of the hidden state per layer are measured on another program; checkpoints and logits are not.
            let shape = shape("Llama 3.1 8B");
            let seq = entry.u64("seq");
            let layer = shape.layer_activation_bytes(0, 1, seq, kept(Recompute::Layer)).unwrap() as f64;
            entry.near("hidden_state_GiB", layer / GIB, 0.0);
            entry.near("checkpoints_GiB", 32.0 * layer / GIB, 0.0);
            let head = shape.head_activation_bytes(1, seq, DType::BF16).unwrap() as f64;
            entry.close("logits_fp32_GiB", (head - 2.0 * layer) / GIB, 0.01);
        }
        id => panic!("no check for {id}"),
    }
}

fn training_flops(entry: &Entry<'_>) {
    let id = entry.id();
    if id.starts_with("megatron.table") {
        let (hidden, layers) = (entry.u64("hidden"), entry.u64("layers"));
        // Table 2 does not print heads; neither parameters nor FLOPs depend on them.
        let heads = entry.find("heads").and_then(Value::as_u64).unwrap_or(hidden / 128);
        let shape = gpt(layers, hidden, heads, entry.u64("vocab"));
        let step = |batch| {
            let step = shape.training_step_flops(batch, entry.u64("seq"), Pairs::Square, Recompute::Layer);
            step.unwrap().total()
        };
        let parameters = shape.parameters().unwrap().total() as f64;
        if id.starts_with("megatron.table1") {
            let name = id.trim_start_matches("megatron.table1.").trim_end_matches('B').parse::<f64>().unwrap();
            assert!((parameters / 1e9 - name).abs() <= 0.051, "{id}: {parameters}");
            let rate = entry.f64("gpus") * entry.f64("tflops_per_gpu") * 1e12;
            entry.near("implied_iter_s", step(entry.u64("batch")) as f64 / rate, 0.006);
        } else {
            entry.close("P", parameters, 0.0004);
            let per_token = step(1) as f64 / entry.f64("seq");
            let days = per_token * entry.f64("T") / (entry.f64("n") * entry.f64("X")) / 86400.0;
            entry.near("days", days, 1.0);
        }
        return;
    }
    match id {
        "megatron.days.175b" => {
            let forward_again = six_n_flops(entry.u64("P"), entry.u64("T")).unwrap() as f64 * 8.0 / 6.0;
            entry.near("days", forward_again / (entry.f64("n") * entry.f64("X")) / 86400.0, 0.5);
        }
        "train.llama3-405b-flops" => {
            let parameters = shape("Llama 3.1 405B").parameters().unwrap().total();
            entry.close("flops", six_n_flops(parameters, entry.u64("D")).unwrap() as f64, 0.01);
        }
        "train.gpt3-flops" => {
            let parameters = shape("GPT-3").parameters().unwrap().total();
            let flops = six_n_flops(parameters, entry.u64("D")).unwrap() as f64;
            entry.close("flops", flops, 0.005);
            entry.close("pf_days", flops / 8.64e19, 0.005);
        }
        _ => panic!("no check for {id}"),
    }
}

fn device(entry: &Entry<'_>) {
    let peak = |name: &str, precision| Hardware::named(name).unwrap().peak(precision).unwrap() as f64;
    let ridge = |name: &str| Hardware::named(name).unwrap().ridge(Precision::Bf16).unwrap();
    match entry.id() {
        "hw.peaks" => {
            for (key, name, precision) in [
                ("A100_bf16_TF", "A100", Precision::Bf16),
                ("H100_bf16_TF", "H100", Precision::Bf16),
                ("H200_bf16_TF", "H200", Precision::Bf16),
                ("B200_bf16_TF", "B200", Precision::Bf16),
                ("H100_fp8_TF", "H100", Precision::Fp8),
                ("H100_PCIe_bf16", "H100 PCIe", Precision::Bf16),
            ] {
                entry.near(key, peak(name, precision) / 1e12, 0.0);
            }
            // The A100's 2.0 is its data sheet's 2.039 with fewer digits.
            for (key, name, relative) in [
                ("A100_HBM_TBs", "A100", 0.02),
                ("H100_HBM_TBs", "H100", 0.0),
                ("H200_HBM_TBs", "H200", 0.0),
                ("B200_HBM_TBs", "B200", 0.0),
            ] {
                entry.close(key, Hardware::named(name).unwrap().bandwidth.get() as f64 / 1e12, relative);
            }
        }
        "hw.mamf" => {
            // Measured: what a device really reaches lies below its peak, not far.
            for (key, name, precision) in [
                ("A100_SXM", "A100", Precision::Bf16),
                ("H100_SXM", "H100", Precision::Bf16),
                ("H200_SXM", "H200", Precision::Bf16),
                ("B200_SXM", "B200", Precision::Bf16),
                ("H200_fp8", "H200", Precision::Fp8),
                ("H100_fp8", "H100", Precision::Fp8),
            ] {
                let efficiency = entry.f64(key) * 1e12 / peak(name, precision);
                assert!((0.7..0.9).contains(&efficiency), "{key}: {efficiency}");
            }
        }
        "roof.bcrit.tpu-v5e" => entry.close("B_crit", ridge("TPU v5e"), 0.01),
        "roof.bcrit.h100-989" => entry.close("B_crit", ridge("H100"), 0.001),
        "roof.bcrit.h100" | "roof.bcrit.h100-sb" => entry.close("B_crit", ridge("H100"), 0.01),
        "roof.matmul-b200" => {
            // X[B, D] · W[D, F] as a head: bytes below the ridge, FLOPs above it.
            let mut shape = gpt(1, entry.u64("D"), 32, entry.u64("F"));
            shape.tied = false;
            for (rows, key) in [(64, "us_B64"), (512, "us_B512")] {
                let product = shape.head_operation(rows, DType::BF16).unwrap();
                let seconds = (product.bytes as f64 / entry.f64("W")).max(product.flops as f64 / entry.f64("C"));
                entry.close(key, seconds * 1e6, 0.03);
            }
        }
        id => panic!("no check for {id}"),
    }
}

fn inference(entry: &Entry<'_>) {
    let dtype = DType::F16;
    match entry.id() {
        "inf.floor.llama2-7b.A100" | "inf.floor.llama2-7b.H100" => {
            let bytes = shape("Llama 2 7B").weight_bytes(dtype).unwrap();
            entry.exact("bytes", bytes);
            entry.close("ms_per_token", bytes as f64 / entry.f64("W") * 1e3, 0.001);
            entry.close("tok_s", entry.f64("W") / bytes as f64, 0.001);
        }
        "inf.gptfast.Llama-2-7B" => {
            // Published without the one row of the embedding that is read.
            let bytes = shape("Llama 2 7B").decode_weight_bytes(dtype).unwrap();
            entry.exact("weight_bytes_excl_input_embed", bytes - 2 * 4096);
        }
        "inf.sb-13b.bs1" => {
            let bytes = shape("Llama 2 13B").kv_bytes(8192, 1, dtype).unwrap();
            entry.near("kv_GB", bytes as f64 / 1e9, 0.05);
        }
        "inf.vllm-split" => {
            let weights = shape("OPT-13B").weight_bytes(dtype).unwrap() as f64;
            let memory = Hardware::named("A100 40GB").unwrap().memory.get() as f64;
            entry.near("weights_pct", 100.0 * weights / memory, 1.0);
        }
        "inf.kipply-ft.tp1" => {
            let weights = shape("OPT-13B").weight_bytes(dtype).unwrap() as f64;
            let floor = weights / Hardware::named("A100 40GB").unwrap().bandwidth.get() as f64 * 1e3;
            let measured = entry.f64("decode_ms") / floor;
            assert!((1.3..1.7).contains(&measured), "measured / floor: {measured}");
        }
        id => panic!("no check for {id}"),
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
