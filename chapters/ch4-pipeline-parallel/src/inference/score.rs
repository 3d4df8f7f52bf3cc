//! Scoring: every sequence once through the stages, one after the other, so that all stages are busy.

use super::Server;
use crate::Result;
use decoder::Tokens;
use lab::batch::Batch;
use lab::score::{Score, score_with};

/// Scores `batch`; the result is on the last stage.
///
/// # Errors
/// A failure here or on another stage, or logits that are not numbers.
pub fn score(server: &Server<'_>, batch: &Batch) -> Result<Option<Score>> {
    let Server { model, context, communicator, .. } = server;
    let mut hidden = Vec::new();
    for ids in batch.sequences() {
        let _kind = ledger::scope(ledger::Kind::Activations);
        let tokens = Tokens::from_zero(&[ids], model.device())?;
        let place = model.place(tokens.positions())?;
        let mut x = match server.number() {
            0 => model.embed(context, tokens.ids())?,
            here => communicator.recv(here - 1)?.to_device(model.device())?,
        };
        for layer in 0..model.layers().len() {
            x = model.layer(context, layer, &x, &place, None)?;
        }
        if server.is_last() {
            hidden.push(x.squeeze(0)?);
        } else {
            communicator.send(&x, server.number() + 1)?;
        }
    }
    if !server.is_last() {
        return Ok(None);
    }
    let logits = |row: usize, positions: std::ops::Range<usize>| {
        let x = hidden[row].narrow(0, positions.start, positions.len())?;
        Ok(model.head_logits(context, &x)?)
    };
    Ok(Some(score_with(batch, logits)?))
}
