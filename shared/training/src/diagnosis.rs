//! Where a loss that is not a number began.

use crate::accumulation::without_sink;
use crate::data::Batch;
use crate::segments::Chain;
use crate::{Error, Result};
use candle_core::{DType, Tensor};
use decoder::{Context, Decoder};

/// The error of a loss that is not finite, with the first tensor on the way to it that is not: a weight, or what a segment puts out.
///
/// The forward is run again for this, communication of a split included: every rank that shares the loss comes here. An error on the
/// way leaves `error` as it was.
pub(crate) fn of_loss(error: Error, model: &Decoder, ctx: &Context, batches: &[Batch]) -> Error {
    let Error::NotFinite { step, name, value } = error else { return error };
    let ctx = without_sink(ctx);
    let found = weight(model).transpose().or_else(|| output(model, &ctx, batches).transpose());
    let name = match found {
        Some(Ok(tensor)) => format!("{name} (first of all {tensor})"),
        _ => name,
    };
    Error::NotFinite { step, name, value }
}

fn weight(model: &Decoder) -> Result<Option<String>> {
    for (parameter, _) in model.parameters() {
        if !is_finite(parameter.value())? {
            return Ok(Some(format!("the weight {}", parameter.name())));
        }
    }
    Ok(None)
}

fn output(model: &Decoder, ctx: &Context, batches: &[Batch]) -> Result<Option<String>> {
    for batch in batches {
        let tokens = batch.tokens(model.device())?;
        let chain = Chain::new(model, ctx, &tokens)?;
        let (mut x, _) = chain.embed()?;
        if !is_finite(&x)? {
            return Ok(Some("the output of the embedding".into()));
        }
        for index in 0..model.layers().len() {
            (x, _) = chain.layer(index, &x)?;
            if !is_finite(&x)? {
                return Ok(Some(format!("the output of layer {index}")));
            }
        }
        let sum = chain.loss(&x, &batch.targets)?.sum;
        if !sum.is_finite() {
            return Ok(Some("the logits".into()));
        }
    }
    // The rows of another rank.
    Ok(None)
}

/// x · 0 is 0 unless x is NaN or infinite.
fn is_finite(tensor: &Tensor) -> Result<bool> {
    let zero = (tensor.detach().to_dtype(DType::F32)? * 0.0)?.sum_all()?.to_scalar::<f32>()?;
    Ok(zero == 0.0)
}
