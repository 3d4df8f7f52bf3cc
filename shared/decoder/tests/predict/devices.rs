//! Published figures of devices, and of what a device does with a model.

use super::*;

pub(super) fn device(entry: &Entry<'_>) {
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

pub(super) fn inference(entry: &Entry<'_>) {
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
