//! Published figures of training: state per parameter, activations, FLOPs.

use super::*;

pub(super) fn training_state(entry: &Entry<'_>) {
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

pub(super) fn activations(entry: &Entry<'_>) {
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

pub(super) fn training_flops(entry: &Entry<'_>) {
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
