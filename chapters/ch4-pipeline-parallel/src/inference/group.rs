//! Sequences that go through the pipeline together.

use super::Server;
use crate::Result;
use candle_core::{DType, Device, Tensor};
use decoder::Tokens;
use decoder::cache::{Contiguous, KvCache};
use decoder::generation::{Options, Sampler, Sampling};
use std::ops::Range;

/// One stage's part of a group: every stage follows all groups, because it needs the positions.
pub(super) struct Group {
    /// Rows of the whole batch.
    pub(super) rows: Range<usize>,
    /// Prompts and what was chosen so far. On stages between the first and the last the chosen ids are not known: zeros.
    pub(super) ids: Vec<Vec<u32>>,
    samplers: Vec<Sampler>,
    /// Per row, the length at which it came to an end, its last token included.
    pub(super) ends: Vec<Option<usize>>,
    cache: Contiguous,
    /// Tokens chosen per row.
    pub(super) step: usize,
}

impl Group {
    pub(super) fn new(
        server: &Server<'_>,
        rows: Range<usize>,
        prompts: &[Vec<u32>],
        options: &Options,
    ) -> Result<Self> {
        let ids = prompts[rows.clone()].to_vec();
        let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
        let sampler = |row: usize| {
            let seed = options.sampling.seed.wrapping_add(row as u64);
            Sampler::new(Sampling { seed, ..options.sampling.clone() })
        };
        Ok(Self {
            samplers: rows.clone().map(sampler).collect::<decoder::Result<_>>()?,
            ends: vec![None; ids.len()],
            cache: server.model.cache(ids.len(), longest + options.max_tokens)?,
            step: 0,
            rows,
            ids,
        })
    }

    /// What goes through next: the prompts, then the newest token of each. A row that came to an end goes on with whatever was
    /// chosen, so that the group keeps its shape and every stage knows its positions; nobody looks.
    fn next(&self, device: &Device) -> Result<Tokens> {
        let fed: Vec<&[u32]> =
            self.ids.iter().map(|ids| if self.step == 0 { &ids[..] } else { &ids[ids.len() - 1..] }).collect();
        let starts = self.ids.iter().zip(&fed).map(|(ids, fed)| ids.len() - fed.len()).collect();
        Ok(Tokens::new(&fed, starts, device)?)
    }

    /// This stage's part of the group's next forward: from `input` (on the first stage, the ids) to what the next stage gets, on the
    /// last one the chosen tokens `[rows]`.
    pub(super) fn forward(&mut self, server: &Server<'_>, input: Option<Tensor>) -> Result<Tensor> {
        let _kind = ledger::scope(ledger::Kind::Activations);
        let Server { model, context, .. } = server;
        let tokens = self.next(model.device())?;
        let place = model.place(tokens.positions())?;
        let mut x = match input {
            Some(x) => x.to_device(model.device())?,
            None => model.embed(context, tokens.ids())?,
        };
        for layer in 0..model.layers().len() {
            x = model.layer(context, layer, &x, &place, Some(&mut self.cache as &mut dyn KvCache))?;
        }
        if !server.is_last() {
            // The next id is not known here; only the length of the sequence counts.
            if server.number() > 0 {
                self.append(&vec![0; self.ids.len()]);
            }
            return Ok(x);
        }
        let last = tokens
            .positions()
            .spans()
            .enumerate()
            .map(|(row, (_, length))| Ok(x.narrow(0, row, 1)?.narrow(1, length - 1, 1)?.squeeze(1)?));
        let last = Tensor::cat(&last.collect::<Result<Vec<_>>>()?, 0)?;
        let logits = model.head_logits(context, &last)?;
        let _host = ledger::scope(ledger::Kind::Host);
        let logits = logits.to_dtype(DType::F32)?.to_vec2::<f32>()?;
        let mut chosen = Vec::new();
        for ((sampler, ids), logits) in self.samplers.iter_mut().zip(&self.ids).zip(&logits) {
            chosen.push(sampler.sample(logits, ids)?);
        }
        if server.number() > 0 {
            self.append(&chosen);
        }
        Ok(Tensor::new(chosen, &Device::Cpu)?)
    }

    /// Whether every row came to an end.
    pub(super) fn is_done(&self) -> bool {
        self.ends.iter().all(Option::is_some)
    }

    /// Every row is one token longer.
    pub(super) fn append(&mut self, chosen: &[u32]) {
        for (ids, &id) in self.ids.iter_mut().zip(chosen) {
            ids.push(id);
        }
        self.step += 1;
    }
}
