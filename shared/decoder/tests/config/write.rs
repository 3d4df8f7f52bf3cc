//! A config that is written and read again is the same.

use super::{FAMILIES, Random, full, read, with};
use decoder::Config;
use decoder::config::{QkNorm, RopeScaling};
use serde_json::json;

fn again(config: &Config) -> Config {
    Config::from_json(&config.to_json().unwrap(), None, "written").unwrap()
}

#[test]
fn a_written_config_reads_back_equal() {
    let seed = 21;
    let mut random = Random(seed);
    for family in FAMILIES {
        for changes in [
            json!({}),
            json!({ "rope_scaling": null, "eos_token_id": 3, "bos_token_id": null, "torch_dtype": null, "hidden_act": "silu" }),
            json!({ "rope_scaling": { "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24 } }),
            json!({ "rope_scaling": { "type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4 } }),
            json!({ "tie_word_embeddings": false, "eos_token_id": null, "hidden_act": "gelu_new" }),
        ] {
            let mut config = read(&with(family, changes.clone())).unwrap();
            config.hidden = random.whole(1, 999);
            config.ffn = random.whole(1, 999);
            config.vocab = random.whole(10, 9_999);
            config.head_dim = 2 * random.whole(1, 99);
            assert_eq!(again(&config), config, "{family} with {changes}, seed {seed}");
        }
    }
}

#[test]
fn a_config_that_its_family_cannot_express_is_not_written() {
    let mut config = read(&full("llama")).unwrap();
    config.output_bias = false;
    let message = config.to_json().unwrap_err().to_string();
    assert!(message.contains("llama with biases q/k/v true, o false"), "{message}");

    let mut config = read(&full("llama")).unwrap();
    config.qk_norm = QkNorm::PerHead;
    assert!(config.to_json().is_err());

    let mut config = read(&full("llama")).unwrap();
    config.rope.scaling = RopeScaling::Divisors { divisors: vec![1.0; 8] };
    assert!(config.to_json().unwrap_err().to_string().contains("8 divisors"));
}

#[test]
fn a_config_changed_in_code_is_validated_before_it_is_written() {
    let mut config = read(&full("llama")).unwrap();
    config.layers = 4;
    assert!(config.to_json().unwrap_err().to_string().contains("windows"));
    config.windows = vec![None; 4];
    assert!(config.to_json().is_ok());
    config.rope.scaling = RopeScaling::Linear { factor: f64::NAN };
    assert!(config.validate("here").unwrap_err().to_string().starts_with("here: rope_scaling = Linear"));
}
