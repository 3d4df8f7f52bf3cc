//! One backward: what every chapter's `gradients` computes and prints.

use crate::batch::Batch;
use crate::error::create_parent;
use crate::{Result, Table};
use decoder::weights::save::save_safetensors;
use decoder::{Context, Decoder};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use training::accumulation::Loss;
use training::gradients::Gradients;
use training::{Named, clip, segments};

/// The document of `gradients`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GradientNorms {
    /// Mean of −log p over the predicted tokens, in nats.
    pub loss: f64,
    /// Predicted tokens.
    pub count: usize,
    /// Euclidean norm of all gradients as one vector.
    pub global_norm: f64,
    /// Norm of each parameter's gradient, by its name in the checkpoint.
    pub norms: BTreeMap<String, f64>,
}

impl GradientNorms {
    /// Parameter by parameter, then the loss and the global norm.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let table = self.norms.iter().fold(Table::new(["parameter", "norm of its gradient"]), |table, (name, norm)| {
            table.row([name.clone(), format!("{norm:.6}")])
        });
        writeln!(out, "{table}\n")?;
        writeln!(out, "loss: {:.6} nats per token, mean of {} tokens", self.loss, self.count)?;
        writeln!(out, "global norm: {:.6} over {} parameters", self.global_norm, self.norms.len())
    }
}

/// Gradients of the mean loss of `batch`, by name: returns (loss, gradients). The sink of `ctx` is not used.
///
/// # Errors
/// As [`contribution`].
pub fn gradients(model: &Decoder, ctx: &Context, batch: &Batch) -> Result<(f64, Named)> {
    let (loss, gradients) = contribution(model, ctx, batch, batch.targets())?;
    Ok((loss.mean(), gradients))
}

/// What `batch` contributes to the loss, and to the gradients of the mean over `count` targets: those of a larger batch that it is a
/// part of. A part in which nothing is predicted contributes zeros. The sink of `ctx` is not used.
///
/// # Errors
/// Forward or backward failed, or a parameter got no gradient.
pub fn contribution(model: &Decoder, ctx: &Context, batch: &Batch, count: usize) -> Result<(Loss, Named)> {
    if batch.targets() == 0 {
        return Ok((Loss::default(), Gradients::expected(model, 0).finish()?));
    }
    let sink = Arc::new(Gradients::expected(model, 1));
    let mut ctx = ctx.clone();
    ctx.sink = Some(sink.clone());
    let (inputs, targets) = batch.inputs_and_targets(model.device())?;
    let (sum, counted) = segments::forward_backward(model, &ctx, &inputs, &targets, 1. / count as f64)?;
    Ok((Loss { sum, count: counted }, sink.finish()?))
}

/// Writes full gradients as safetensors, under the parameters' names; the folder is created.
///
/// # Errors
/// The file cannot be written.
pub fn save(path: &Path, gradients: Named) -> Result<()> {
    create_parent(path)?;
    Ok(save_safetensors(path, gradients.into_iter().map(|(name, gradient)| (name.to_string(), gradient)))?)
}

/// The document, from full gradients of the mean loss over `count` predicted tokens.
///
/// # Errors
/// A gradient is not finite.
pub fn norms(loss: f64, count: usize, gradients: &Named) -> Result<GradientNorms> {
    let mut norms = BTreeMap::new();
    for (name, gradient) in gradients {
        let alone = Named::from([(name.clone(), gradient.clone())]);
        norms.insert(name.to_string(), clip::global_norm(&alone, 0)?);
    }
    Ok(GradientNorms { loss, count, global_norm: clip::global_norm(gradients, 0)?, norms })
}
