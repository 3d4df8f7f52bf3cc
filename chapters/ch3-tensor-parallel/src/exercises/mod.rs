//! The exercises of this chapter, one file each: its table, its check, its bugs. The stubs are in [`crate::homework`].
//!
//! An exercise has the number of the lesson's section that it belongs to.

mod chunks_of_rank;
mod conjugates;
mod part_of_rank;
mod summed_over;

pub use chunks_of_rank::CHUNKS_OF_RANK;
pub use conjugates::CONJUGATES;
pub use part_of_rank::PART_OF_RANK;
pub use summed_over::SUMMED_OVER;

use decoder::Config;
use lab::exercises::{Diagnosis, Exercises, Stub};

/// All of them, in the lesson's order.
pub fn exercises() -> Exercises {
    vec![&PART_OF_RANK, &CONJUGATES, &SUMMED_OVER, &CHUNKS_OF_RANK]
}

/// Where the stub of `functions` stands.
const fn stub(functions: &'static [&'static str]) -> Stub {
    Stub { folder: env!("CARGO_MANIFEST_DIR"), file: "src/homework.rs", functions }
}

/// A small model with every kind of weight: biases, norms on q and k, `heads` heads of which keys have `kv_heads`.
fn model(heads: usize, kv_heads: usize) -> Result<Config, Diagnosis> {
    let text = serde_json::json!({
        "model_type": "qwen3", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 4, "max_position_embeddings": 32,
        "attention_bias": true, "tie_word_embeddings": false, "rms_norm_eps": 1e-5,
    });
    let mut config = Config::from_json(&text.to_string(), None, "the exercise's model")?;
    (config.output_bias, config.ffn_bias) = (true, true);
    Ok(config)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_check_passes_the_reference_stops_at_the_stub_and_tells_the_bugs_apart() {
        let problems = lab::exercises::verify(&super::exercises());
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }
}
