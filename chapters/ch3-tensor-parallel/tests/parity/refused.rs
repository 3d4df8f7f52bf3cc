//! What is refused, with the numbers that would be legal; and ranks that fail in the middle of a layer.

use super::models::{Model, all, batch, bundled, workspace};
use super::ranks::{FORMS, form};
use candle_core::{DType, Tensor};
use ch3_tensor_parallel::{Error, Layout};
use collective::{Failure, Options, launch};
use decoder::split::{Attend, Projected, Split};
use decoder::{Context, Positions, cache::LayerCache};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn message(model: &Model, tp: usize) -> String {
    Layout::new(&model.config, tp).unwrap_err().to_string()
}

#[test]
fn a_number_of_ranks_that_does_not_fit_is_refused_with_those_that_do() {
    let model = bundled();
    for (tp, reason) in [
        (0, "at least 1 rank"),
        (3, "does not divide the 8 attention heads"),
        (16, "only 8 attention heads"),
        (5, "does not divide the 8 attention heads"),
    ] {
        let message = message(&model, tp);
        assert!(message.contains("--tp") && message.contains(reason), "{message}");
        assert!(message.contains("1, 2, 4, 8 can be used"), "{message}");
    }
    let models = all();
    let find = |name: &str| models.iter().find(|model| model.name.starts_with(name)).unwrap();
    let ffn = message(find("llama-gqa"), 8);
    assert!(ffn.contains("feed-forward width of 172") && ffn.contains("1, 2, 4 can be used"), "{ffn}");
    let kv = message(find("6 heads"), 2);
    assert!(kv.contains("neither divides the 3 key heads") && kv.contains("1, 3, 6 can be used"), "{kv}");
}

#[test]
fn smollm2_has_nine_heads_and_two_ranks_are_refused() {
    let recorded = std::fs::read(workspace().join("tests/fixtures/smollm2/gguf_meta.json")).unwrap();
    let recorded: serde_json::Value = serde_json::from_slice(&recorded).unwrap();
    let of = |key: &str| &recorded["meta"][format!("llama.{key}")];
    let text = serde_json::json!({
        "model_type": "llama", "vocab_size": 49_152, "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"), "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"), "num_key_value_heads": of("attention.head_count_kv"),
    });
    let config = decoder::Config::from_json(&text.to_string(), None, "config.json").unwrap();
    let error = Layout::new(&config, 2).unwrap_err().to_string();
    assert!(error.contains("9 attention heads") && error.contains("1, 3 can be used"), "{error}");
}

/// Attention that fails on one rank, between two communications of the others.
struct FailsOnRank {
    inner: Arc<dyn Attend>,
    fails: bool,
}

impl Attend for FailsOnRank {
    fn attend(
        &self,
        ctx: &Context,
        projected: Projected,
        positions: &Positions,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> decoder::Result<Tensor> {
        if self.fails {
            return Err(decoder::Error::Logits { problem: "a failure on purpose".into() });
        }
        self.inner.attend(ctx, projected, positions, window, cache)
    }
}

#[test]
fn a_rank_that_fails_in_the_middle_of_a_layer_stops_all_within_a_second_and_is_named() {
    let model = bundled();
    let (tokens, targets) = batch(&model, &[9, 4]);
    for sequence in FORMS {
        let start = Instant::now();
        let error = launch(4, &Options::default(), |rank| {
            let tensor = form(&model.config, rank, sequence)?;
            let split = tensor.training_split();
            let decoder = model.load(DType::F32, &split);
            let attend = Arc::new(FailsOnRank { inner: split.attend.clone(), fails: rank.rank() == 2 });
            let sink = Arc::new(training::gradients::Gradients::expected(&decoder, 1));
            let ctx = Context::training(sink).with_split(Split { attend, ..split });
            training::segments::forward_backward(&decoder, &ctx, &tokens, &targets, 1.)?;
            Ok::<_, Error>(())
        })
        .unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        let collective::Error::Failed(failure) = error else { panic!("{error}") };
        assert!(matches!(&*failure, Failure::Error { rank: 2, .. }), "{failure}");
        assert!(failure.to_string().contains("a failure on purpose"), "{failure}");
    }
}

#[test]
fn an_id_that_no_rank_holds_is_refused_on_every_rank() {
    let model = bundled();
    let error = launch(2, &Options::default(), |rank| {
        let tensor = form(&model.config, rank, None)?;
        let decoder = model.load(DType::F32, &tensor.split());
        let ctx = Context::inference().with_split(tensor.split());
        let tokens = decoder::Tokens::from_zero(&[&[5, 1024]], &candle_core::Device::Cpu)?;
        decoder.logits(&ctx, &tokens, None)?;
        Ok::<_, Error>(())
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("1024"), "{error}");
}
