//! A gradient sink that adds up contributions by name, and a backward into it.

use candle_core::Tensor;
use decoder::ops::{GradientSink, WeightGradient};
use decoder::{Context, Decoder, Tokens};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Gradients by name.
pub(crate) type Named = BTreeMap<String, Tensor>;

/// The sums so far, and how many contributions each has.
#[derive(Default)]
pub(crate) struct Sums(Mutex<BTreeMap<String, (Tensor, usize)>>);

impl Sums {
    pub(crate) fn gradients(&self) -> Named {
        self.0.lock().unwrap().iter().map(|(name, (sum, _))| (name.clone(), sum.clone())).collect()
    }

    pub(crate) fn contributions(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, |(_, count)| *count)
    }
}

impl GradientSink for Sums {
    fn contribute(&self, name: &Arc<str>, gradient: WeightGradient) -> decoder::Result<()> {
        let mut sums = self.0.lock().unwrap();
        let (sum, count) = sums.remove(&**name).map_or((None, 0), |(sum, count)| (Some(sum), count));
        sums.insert(name.to_string(), (gradient.accumulate(sum)?, count + 1));
        Ok(())
    }
}

/// The loss sum of a batch, and its gradients, with `ctx` (which gets a sink).
pub(crate) fn backward_in(ctx: Context, model: &Decoder, tokens: &Tokens, targets: &[u32]) -> (f64, Arc<Sums>) {
    let sums = Arc::new(Sums::default());
    let mut ctx = ctx;
    ctx.sink = Some(sums.clone());
    let loss = model.loss(&ctx, tokens, targets).unwrap();
    assert_eq!(loss.count, targets.iter().filter(|&&target| target != decoder::ops::IGNORED).count());
    loss.sum.backward().unwrap();
    (super::tolerance::numbers(&loss.sum)[0], sums)
}

/// The loss sum of a batch, and its gradients.
pub(crate) fn backward(model: &Decoder, tokens: &Tokens, targets: &[u32]) -> (f64, Arc<Sums>) {
    backward_in(Context::inference(), model, tokens, targets)
}
