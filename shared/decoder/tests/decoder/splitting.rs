//! The split points suffice: two halves of every layer, and two stages of layers, are the whole model.

use super::models::{Model, all, logits, tokens};
use super::sums::{Named, Sums, backward};
use super::tolerance::{assert_close, numbers};
use candle_core::{DType, Tensor};
use decoder::ops::with_backward;
use decoder::split::{Block, Boundary, Partial, Placement, Split};
use decoder::weights::{Part, Role, WeightSpec};
use decoder::{Config, Context, Decoder, Result};
use serde_json::json;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// One of two ranks, with lines to the other.
struct Half {
    rank: usize,
    config: Config,
    to_other: Sender<Tensor>,
    from_other: Arc<Mutex<Receiver<Tensor>>>,
}

/// Whether a dimension of `role` is cut, and which.
fn cut(config: &Config, role: Role) -> Option<usize> {
    match role {
        Role::Query | Role::QueryBias | Role::Gate | Role::Up | Role::GateBias | Role::UpBias => Some(0),
        Role::Key | Role::Value | Role::KeyBias | Role::ValueBias => (config.kv_heads > 1).then_some(0),
        Role::Output | Role::Down => Some(1),
        _ => None,
    }
}

/// Whether both ranks hold all of the weight and use it on different heads.
fn partly_used(config: &Config, role: Role) -> bool {
    match role {
        Role::QueryNorm | Role::KeyNorm => true,
        Role::Key | Role::Value | Role::KeyBias | Role::ValueBias => config.kv_heads == 1,
        _ => false,
    }
}

fn half(size: usize, rank: usize) -> Range<usize> {
    rank * size / 2..(rank + 1) * size / 2
}

impl Placement for Half {
    fn part(&self, weight: &WeightSpec) -> Part {
        match cut(&self.config, weight.role) {
            Some(dim) => Part::Ranges { dim, ranges: vec![half(weight.shape[dim], self.rank)] },
            None => Part::Whole,
        }
    }

    fn layers(&self, layers: usize) -> Vec<Range<usize>> {
        std::iter::once(0..layers).collect()
    }

    fn embedding(&self) -> bool {
        true
    }

    fn head(&self) -> bool {
        true
    }
}

/// The sum of both ranks' tensors, in the order of ranks.
fn sum(rank: usize, to: &Sender<Tensor>, from: &Mutex<Receiver<Tensor>>, mine: &Tensor) -> candle_core::Result<Tensor> {
    to.send(mine.detach()).map_err(candle_core::Error::wrap)?;
    let other = from.lock().unwrap().recv().map_err(candle_core::Error::wrap)?;
    if rank == 0 { mine.detach() + other } else { other + mine.detach() }
}

impl Boundary for Half {
    /// Megatron's f.
    fn enter(&self, _: &Context, _: Block, x: Tensor) -> Result<Tensor> {
        let (rank, to, from) = (self.rank, self.to_other.clone(), self.from_other.clone());
        let copy = x.detach().copy()?;
        Ok(with_backward("f", [&x], copy, move |_, _, dy| Ok([Some(sum(rank, &to, &from, dy)?)]))?)
    }

    /// Megatron's g.
    fn leave(&self, _: &Context, _: Block, partial: Partial) -> Result<Tensor> {
        partial.reduce(|x| {
            let whole = sum(self.rank, &self.to_other, &self.from_other, &x)?;
            Ok(with_backward("g", [&x], whole, |_, _, dy| Ok([Some(dy.clone())]))?)
        })
    }
}

fn halves(config: &Config) -> [Split; 2] {
    let (to_1, from_0) = channel();
    let (to_0, from_1) = channel();
    [(0, to_1, from_1), (1, to_0, from_0)].map(|(rank, to_other, from_other)| {
        let from_other = Arc::new(Mutex::new(from_other));
        let half = Arc::new(Half { rank, config: config.clone(), to_other, from_other });
        Split { placement: half.clone(), boundary: half, ..Split::whole() }
    })
}

/// Logits, loss and gradients of one rank, on a thread of its own.
fn on_both_ranks<R: Send>(config: &Config, rank: impl Fn(Split) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let rank = &rank;
        let threads: Vec<_> = halves(config).into_iter().map(|split| scope.spawn(move || rank(split))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn splittable() -> Vec<Model> {
    let mut models: Vec<Model> = all().into_iter().filter(|model| model.config.heads.is_multiple_of(2)).collect();
    models.push(Model::new(
        "one key head on both ranks, biases, odd ffn",
        &json!({ "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 4, "attention_bias": true,
                 "mlp_bias": true, "intermediate_size": 7 }),
    ));
    models.push(Model::new(
        "qwen3 with one key head",
        &json!({ "model_type": "qwen3", "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4 }),
    ));
    models
}

#[test]
fn two_halves_of_every_layer_have_the_logits_and_gradients_of_the_whole() {
    for model in splittable() {
        let rows = model.rows(&[6, 4]);
        let targets = model.targets(&rows);
        let whole = model.load(DType::F64);
        let (expected_logits, (expected_loss, expected)) =
            (logits(&whole, &rows), backward(&whole, &tokens(&rows), &targets));
        let ranks = on_both_ranks(&model.config, |split| {
            let decoder = model.load_part(DType::F64, &split);
            let ctx = Context::inference().with_split(split);
            let found = decoder.logits(&ctx, &tokens(&rows), None).unwrap();
            let (loss, sums) = super::sums::backward_in(ctx, &decoder, &tokens(&rows), &targets);
            (found, loss, sums.gradients())
        });
        for (rank, (found, loss, _)) in ranks.iter().enumerate() {
            let what = format!("{}, rank {rank}", model.name);
            assert_close(&what, DType::F64, found, &expected_logits);
            assert!(
                (loss - expected_loss).abs() < 1e-12 * expected_loss,
                "{what}: loss {loss}, expected {expected_loss}"
            );
        }
        let gathered = gathered(&model.config, &ranks[0].2, &ranks[1].2);
        for (name, expected) in expected.gradients() {
            assert_close(&format!("{}, {name}", model.name), DType::F64, &gathered[&name], &expected);
        }
    }
}

/// Full gradients from those of two ranks.
fn gathered(config: &Config, first: &Named, second: &Named) -> Named {
    let full = |spec: WeightSpec| {
        let (a, b) = (&first[&*spec.name], &second[&*spec.name]);
        let full = match cut(config, spec.role) {
            Some(dim) => Tensor::cat(&[a, b], dim).unwrap(),
            None if partly_used(config, spec.role) => (a + b).unwrap(),
            None => {
                assert_close(&format!("{} on both ranks", spec.name), DType::F64, b, a);
                a.clone()
            }
        };
        (spec.name.to_string(), full)
    };
    config.weights().into_iter().map(full).collect()
}

#[test]
fn two_halves_decode_through_caches_of_their_own_heads() {
    for model in splittable() {
        let rows = model.rows(&[6, 4]);
        let whole = logits(&model.load(DType::F64), &rows);
        let ranks = on_both_ranks(&model.config, |split| {
            let decoder = model.load_part(DType::F64, &split);
            let ctx = Context::inference().with_split(split);
            let mut cache = decoder.cache(2, 6).unwrap();
            let first: Vec<Vec<u32>> = rows.iter().map(|row| row[..row.len() - 1].to_vec()).collect();
            decoder.logits(&ctx, &tokens(&first), Some(&mut cache)).unwrap();
            let last: Vec<&[u32]> = rows.iter().map(|row| &row[row.len() - 1..]).collect();
            let last = decoder::Tokens::new(&last, vec![5, 3], &candle_core::Device::Cpu).unwrap();
            decoder.logits(&ctx, &last, Some(&mut cache)).unwrap()
        });
        for (rank, found) in ranks.iter().enumerate() {
            for (row, length) in [6, 4].into_iter().enumerate() {
                let expected = whole.get(row).unwrap().get(length - 1).unwrap();
                let found = found.get(row).unwrap().get(0).unwrap();
                assert_close(&format!("{}, rank {rank}, row {row}", model.name), DType::F64, &found, &expected);
            }
        }
    }
}

/// Some layers; the embedding with the first, the head with the last.
struct Stage {
    chunks: Vec<Range<usize>>,
    first: bool,
    last: bool,
}

impl Placement for Stage {
    fn part(&self, _: &WeightSpec) -> Part {
        Part::Whole
    }

    fn layers(&self, _: usize) -> Vec<Range<usize>> {
        self.chunks.clone()
    }

    fn embedding(&self) -> bool {
        self.first
    }

    fn head(&self) -> bool {
        self.last
    }
}

fn stage(model: &Model, chunks: &[(usize, usize)], first: bool, last: bool) -> (Decoder, Split) {
    let placement = Arc::new(Stage { chunks: chunks.iter().map(|&(from, to)| from..to).collect(), first, last });
    let split = Split { placement, ..Split::whole() };
    (model.load_part(DType::F64, &split), split)
}

#[test]
fn two_stages_of_layers_chained_are_the_whole() {
    for model in all() {
        let rows = model.rows(&[5, 3]);
        let (batch, targets) = (tokens(&rows), model.targets(&rows));
        let whole = model.load(DType::F64);
        let expected_logits = logits(&whole, &rows);
        let (expected_loss, expected) = backward(&whole, &batch, &targets);
        for boundary in 0..=model.config.layers {
            let what = format!("{}, cut before layer {boundary}", model.name);
            let (front, split) = stage(&model, &[(0, boundary)], true, false);
            let (back, _) = stage(&model, &[(boundary, model.config.layers)], false, true);
            let sums = [Arc::new(Sums::default()), Arc::new(Sums::default())];
            let ctx = |stage: usize| Context::training(sums[stage].clone()).with_split(split.clone());
            let place = front.place(batch.positions()).unwrap();
            let mut x = front.hidden(&ctx(0), &batch, None).unwrap();
            for layer in 0..back.layers().len() {
                x = back.layer(&ctx(1), layer, &x, &place, None).unwrap();
            }
            assert_close(&what, DType::F64, &back.head_logits(&Context::inference(), &x).unwrap(), &expected_logits);
            let loss = back.head_loss(&ctx(1), &x, &targets).unwrap().sum;
            loss.backward().unwrap();
            let loss = numbers(&loss)[0];
            assert!((loss - expected_loss).abs() < 1e-12 * expected_loss, "{what}: {loss}, expected {expected_loss}");
            let (first, second) = (sums[0].gradients(), sums[1].gradients());
            for (name, expected) in expected.gradients() {
                // A tied embedding has a gradient on both stages.
                let found = match (first.get(&name), second.get(&name)) {
                    (Some(a), Some(b)) => (a + b).unwrap(),
                    (Some(one), None) | (None, Some(one)) => one.clone(),
                    (None, None) => panic!("{what}: no gradient of {name}"),
                };
                assert_close(&format!("{what}, {name}"), DType::F64, &found, &expected);
            }
        }
    }
}

/// Chunks of layers that are not neighbours, as interleaved schedules place them.
#[test]
fn layers_keep_their_names_and_windows_wherever_they_are_placed() {
    let model = all().into_iter().find(|model| model.config.layers == 3).unwrap();
    let rows = model.rows(&[6]);
    let batch = tokens(&rows);
    let (outer, _) = stage(&model, &[(0, 1), (2, 3)], true, true);
    let (middle, _) = stage(&model, &[(1, 2)], false, false);
    let names = |decoder: &Decoder| -> Vec<String> {
        decoder.parameters().iter().map(|(parameter, _)| parameter.name().to_string()).collect()
    };
    assert!(names(&middle).iter().all(|name| name.starts_with("model.layers.1.")), "{:?}", names(&middle));
    let ctx = Context::inference();
    let place = outer.place(batch.positions()).unwrap();
    let mut x = outer.embed(&ctx, batch.ids()).unwrap();
    for (decoder, layer) in [(&outer, 0), (&middle, 0), (&outer, 1)] {
        x = decoder.layer(&ctx, layer, &x, &place, None).unwrap();
    }
    let found = outer.head_logits(&ctx, &x).unwrap();
    assert_close(&model.name, DType::F64, &found, &logits(&model.load(DType::F64), &rows));
    // What is placed elsewhere is an error, not a panic.
    assert!(middle.embed(&ctx, batch.ids()).is_err());
    assert!(middle.head_logits(&ctx, &x).is_err());
    assert!(middle.layer(&ctx, 1, &x, &place, None).is_err());
}
