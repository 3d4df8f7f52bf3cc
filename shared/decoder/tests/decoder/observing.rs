//! What observers hear, and what happens when one objects.

use super::models::{all, tokens};
use super::sums::Sums;
use candle_core::{DType, Device, Tensor, Var};
use decoder::{Context, Error, Parameter, ops};
use ledger::{Observer, Operation, Phase, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_linear_layer_is_two_floating_point_operations_per_weight_and_row_in_each_phase() {
    let (batch, seq, inputs, outputs) = (2, 3, 5, 7);
    for dtype in [DType::F64, DType::F32] {
        let weight = Parameter::new("w", Tensor::ones((outputs, inputs), dtype, &Device::Cpu).unwrap());
        let x = Var::ones((batch, seq, inputs), dtype, &Device::Cpu).unwrap();
        let record = Arc::new(Record::default());
        let ctx = Context::training(Arc::new(Sums::default())).with_observer(record.clone());
        ops::linear(&ctx, &x, &weight).unwrap().backward().unwrap();
        let heard = record.take();
        let phases: Vec<Phase> = heard.iter().map(|operation| operation.phase).collect();
        assert_eq!(phases, [Phase::Forward, Phase::InputGradient, Phase::WeightGradient]);
        let shapes = [vec![batch, seq, outputs], vec![batch, seq, inputs], vec![outputs, inputs]];
        for (operation, shape) in heard.iter().zip(shapes) {
            assert_eq!((operation.name, &*operation.label, &operation.shape), ("linear", "w", &shape));
            assert_eq!(operation.flops, (2 * batch * seq * inputs * outputs) as u64);
            let elements = batch * seq * (inputs + outputs) + inputs * outputs;
            assert_eq!(operation.bytes, (elements * dtype.size_in_bytes()) as u64);
        }
    }
}

/// Objects to operation number `limit`, with an error that can be recognised.
struct Objects {
    limit: usize,
    heard: AtomicUsize,
}

impl Observer for Objects {
    fn observe(&self, _: &Operation) -> Result<(), ledger::Error> {
        if self.heard.fetch_add(1, Ordering::Relaxed) < self.limit {
            return Ok(());
        }
        Err(ledger::Error::NoFreeLedger { name: "the observer".into(), places: self.limit })
    }
}

/// Out of memory in the middle of a backward must arrive as that, not as text in an error of candle.
#[test]
fn an_observer_that_objects_stops_forward_and_backward_at_once_with_its_own_error() {
    for model in all() {
        let decoder = model.load(DType::F32);
        let rows = model.rows(&[4, 3]);
        let (batch, targets) = (tokens(&rows), model.targets(&rows));
        let run = |observer: Arc<dyn Observer>| -> Result<(), Error> {
            let ctx = Context::training(Arc::new(Sums::default())).with_observer(observer);
            let loss = decoder.loss(&ctx, &batch, &targets)?;
            loss.sum.backward()?;
            Ok(())
        };
        let record = Arc::new(Record::default());
        run(record.clone()).unwrap();
        let operations = record.take();
        for (limit, operation) in operations.iter().enumerate() {
            let observer = Arc::new(Objects { limit, heard: AtomicUsize::new(0) });
            let error = run(observer.clone()).expect_err("the observer objected");
            let what = format!("{}, operation {limit}, {operation:?}", model.name);
            assert!(
                matches!(&error, Error::Ledger(ledger::Error::NoFreeLedger { places, .. }) if *places == limit),
                "{what}: {error:?}"
            );
            assert_eq!(observer.heard.load(Ordering::Relaxed), limit + 1, "{what}: the computation went on");
        }
    }
}

#[test]
fn an_error_passes_through_candle_unchanged_and_reads_the_same_on_the_way() {
    let original = || Error::ContextLength { needed: 7, available: 6 };
    let inside = candle_core::Error::from(original());
    assert_eq!(inside.to_string(), original().to_string());
    assert!(matches!(Error::from(inside), Error::ContextLength { needed: 7, available: 6 }));
    // Twice there and back, as through two nested graphs.
    let twice = Error::from(candle_core::Error::from(Error::from(candle_core::Error::from(original()))));
    assert!(matches!(twice, Error::ContextLength { .. }), "{twice:?}");
    // Candle's own errors stay candle's, i/o errors included.
    let own = candle_core::Error::Io(std::io::Error::other("disk"));
    assert!(matches!(Error::from(own), Error::Candle(candle_core::Error::Io(_))));
    let own = candle_core::Error::Msg("shape".into());
    assert!(matches!(Error::from(own), Error::Candle(candle_core::Error::Msg(_))));
}

/// The whole backward, operation by operation: every forward operation with a weight has its gradients observed once.
#[test]
fn every_matrix_product_is_heard_once_in_each_phase() {
    for model in all() {
        let decoder = model.load(DType::F32);
        let rows = model.rows(&[3]);
        let record = Arc::new(Record::default());
        let ctx = Context::training(Arc::new(Sums::default())).with_observer(record.clone());
        decoder.loss(&ctx, &tokens(&rows), &model.targets(&rows)).unwrap().sum.backward().unwrap();
        let heard = record.take();
        for (parameter, _) in
            decoder.parameters().iter().filter(|(parameter, _)| parameter.name().contains("_proj.weight"))
        {
            let of = |phase| {
                heard
                    .iter()
                    .filter(|operation| operation.label == *parameter.name() && operation.phase == phase)
                    .count()
            };
            let counts = [Phase::Forward, Phase::InputGradient, Phase::WeightGradient].map(of);
            assert_eq!(counts, [1, 1, 1], "{}, {}", model.name, parameter.name());
        }
    }
}
