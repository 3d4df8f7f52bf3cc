//! Generated text: through caches of the own heads, on every rank the ids of one device.

use super::models::{Model, cases};
use super::ranks::on_ranks;
use candle_core::DType;
use ch3_tensor_parallel::context::decode::SpreadKeys;
use decoder::generation::{Options, generate};
use decoder::split::Split;
use decoder::{Context, Decoder};
use std::ops::ControlFlow;

fn text(model: &Model, decoder: &Decoder, split: Split, cache: bool) -> Vec<Vec<u32>> {
    // Unequal prompts, and more tokens than the window of some models.
    let prompts = model.rows(&[7, 3, 1]);
    let options = Options { max_tokens: 16, cache, stop_at_eos: false, ..Options::default() };
    let ctx = Context::inference().with_split(split);
    generate(decoder, &ctx, &prompts, &options, |_, _| Ok(ControlFlow::Continue(()))).unwrap().ids
}

#[test]
fn every_rank_generates_the_text_of_one_device_with_and_without_a_cache() {
    for (model, sizes) in cases() {
        let expected = text(&model, &model.load(DType::F64, &Split::whole()), Split::whole(), true);
        for tp in sizes {
            for cache in [true, false] {
                let ranks = on_ranks(&model, tp, None, |_, tensor| {
                    Ok(text(&model, &model.load(DType::F64, &tensor.split()), tensor.split(), cache))
                });
                assert!(ranks.iter().all(|ids| *ids == expected), "{}, tp {tp}, cache {cache}: {ranks:?}", model.name);
            }
        }
    }
}

#[test]
fn a_cache_holds_the_own_key_heads_only() {
    for (model, sizes) in cases() {
        let whole = model.load(DType::F32, &Split::whole()).cache(2, 16).unwrap();
        let whole = decoder::cache::KvCache::bytes(&whole);
        for tp in sizes {
            let bytes = on_ranks(&model, tp, None, |_, tensor| {
                let cache = model.load(DType::F32, &tensor.split()).cache(2, 16)?;
                Ok(decoder::cache::KvCache::bytes(&cache) * (tp / tensor.layout().replicas()) as u64)
            });
            assert!(bytes.iter().all(|&bytes| bytes == whole), "{}, tp {tp}: {bytes:?} of {whole}", model.name);
        }
    }
}

/// Position p of every sequence is on rank p mod cp: each rank's cache has room for its share only.
#[test]
fn a_cache_that_is_spread_over_ranks_gives_the_text_of_one_device() {
    for (model, _) in cases() {
        let expected = text(&model, &model.load(DType::F64, &Split::whole()), Split::whole(), true);
        for cp in [2, 4] {
            for cache in [true, false] {
                let ranks = collective::launch(cp, &collective::Options::default(), |rank| {
                    let split = SpreadKeys::split(rank.communicator(), Split::whole());
                    assert_eq!(split.attend.kept(25), 25usize.div_ceil(cp));
                    Ok::<_, ch3_tensor_parallel::Error>(text(
                        &model,
                        &model.load(DType::F64, &Split::whole()),
                        split,
                        cache,
                    ))
                })
                .unwrap();
                assert!(ranks.iter().all(|ids| *ids == expected), "{}, cp {cp}, cache {cache}: {ranks:?}", model.name);
            }
        }
    }
}
