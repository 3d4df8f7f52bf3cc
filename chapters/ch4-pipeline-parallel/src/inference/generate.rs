//! Prefill and decode in a ring: hidden states go down the stages, chosen tokens from the last back to the first.
//!
//! Time passes in ticks. In each, every stage works on one group and then passes its result on, all at once, so nobody waits in a
//! circle. There are as many slots as stages, or as groups if these are more; in tick k stage r has slot k − r. Empty slots are passed
//! on as empty tensors. When all groups are done, the first stage sends a marker around, and the stages stop one after the other.

use super::Server;
use super::group::Group;
use crate::{Error, Result};
use candle_core::{Device, Tensor};
use decoder::generation::{Generated, Options};
use std::time::{Duration, Instant};

/// What a stage has to say after generating.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The texts, on the first stage, which hears of every token.
    pub generated: Option<Generated>,
    /// Ticks in which this stage had something to do.
    pub busy: usize,
    /// All ticks.
    pub ticks: usize,
}

/// Continues all `prompts`, `in_flight` groups of them at a time, one rank per stage. Each row draws with its own seed, so the text is
/// that of one device. `on_token(row, id)` hears of each token on the first stage.
///
/// # Errors
/// An empty prompt, more tokens than the context holds, no group or more groups than prompts, or a failure here or on another stage.
pub fn generate(
    server: &Server<'_>,
    prompts: &[Vec<u32>],
    options: &Options,
    in_flight: usize,
    mut on_token: impl FnMut(usize, u32) -> Result<()>,
) -> Result<Served> {
    check(server, prompts, options, in_flight)?;
    let mut groups = (0..in_flight)
        .map(|group| Group::new(server, collective::chunk(prompts.len(), in_flight, group), prompts, options))
        .collect::<Result<Vec<_>>>()?;
    let (stages, slots) = (server.size(), in_flight.max(server.size()));
    let eos = &server.model.config().eos;
    let start = Instant::now();
    let (mut prefill, mut busy, mut steps) = (Duration::ZERO, 0, 0);
    let mut ending = options.max_tokens == 0;
    let mut incoming = nothing()?;
    for tick in 0usize.. {
        let slot = tick.checked_sub(server.number()).map(|tick| tick % slots);
        let outgoing = match slot.and_then(|slot| groups.get_mut(slot)) {
            _ if is_marker(&incoming) || ending => Out::Marker,
            Some(group) if server.number() > 0 && incoming.elem_count() > 0 => {
                Out::Result(group.forward(server, Some(incoming))?)
            }
            Some(group) if server.number() == 0 && group.step < options.max_tokens && !group.is_done() => {
                Out::Result(group.forward(server, None)?)
            }
            _ => Out::Nothing,
        };
        busy += usize::from(matches!(outgoing, Out::Result(_)));
        if matches!(outgoing, Out::Marker) {
            // It reaches the last stage in as many exchanges as there are stages after this one.
            let mut passed = marker()?;
            for _ in server.number() + 1..stages {
                exchange(server, &passed)?;
                passed = nothing()?;
            }
            let generated = (server.number() == 0).then(|| {
                let ids = groups.iter().flat_map(|group| group.texts(prompts)).collect();
                Generated { ids, prefill, decode: start.elapsed() - prefill, steps }
            });
            return Ok(Served { generated, busy, ticks: tick });
        }
        let passed = match outgoing {
            Out::Result(tensor) => tensor,
            Out::Nothing | Out::Marker => nothing()?,
        };
        incoming = exchange(server, &passed)?;
        if server.number() > 0 {
            continue;
        }
        // What came back was chosen for the slot that the last stage had.
        let slot = tick.checked_sub(stages - 1).map(|tick| tick % slots);
        if let Some(group) = slot.and_then(|slot| groups.get_mut(slot)).filter(|_| incoming.elem_count() > 0) {
            let chosen = incoming.to_vec1::<u32>()?;
            group.append(&chosen);
            for (row, &id) in chosen.iter().enumerate() {
                if group.ends[row].is_none() {
                    let end = options.stop_at_eos && eos.contains(&id);
                    group.ends[row] = end.then(|| group.ids[row].len());
                    on_token(group.rows.start + row, id)?;
                }
            }
            steps = steps.max(group.step - 1);
            if groups.iter().all(|group| group.step > 0) && prefill.is_zero() {
                prefill = start.elapsed();
            }
        }
        incoming = nothing()?;
        ending = groups.iter().all(|group| group.step >= options.max_tokens || group.is_done());
    }
    Err(Error::Schedule("the ring never ends".to_owned()))
}

/// What a stage passes on in a tick.
enum Out {
    Result(Tensor),
    Nothing,
    Marker,
}

impl Group {
    /// What was generated for each row, up to its end.
    fn texts(&self, prompts: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let rows = self.ids.iter().zip(&prompts[self.rows.clone()]).zip(&self.ends);
        rows.map(|((ids, prompt), end)| ids[prompt.len()..end.unwrap_or(ids.len())].to_vec()).collect()
    }
}

fn exchange(server: &Server<'_>, tensor: &Tensor) -> Result<Tensor> {
    let (here, stages) = (server.number(), server.size());
    if stages == 1 {
        return Ok(tensor.clone());
    }
    Ok(server.communicator.send_recv(tensor, (here + 1) % stages, (here + stages - 1) % stages)?)
}

fn nothing() -> Result<Tensor> {
    Ok(Tensor::zeros(0, candle_core::DType::U32, &Device::Cpu)?)
}

fn marker() -> Result<Tensor> {
    Ok(Tensor::zeros((0, 0), candle_core::DType::U32, &Device::Cpu)?)
}

fn is_marker(tensor: &Tensor) -> bool {
    tensor.dims() == [0, 0]
}

fn check(server: &Server<'_>, prompts: &[Vec<u32>], options: &Options, in_flight: usize) -> Result<()> {
    options.sampling.validate()?;
    let config = server.model.config();
    let wrong = |name, found: String, expected: String| Err(Error::Setting { name, found, expected });
    if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
        return wrong("prompt", "no tokens".to_owned(), "at least one token to continue".to_owned());
    }
    if !(1..=prompts.len()).contains(&in_flight) {
        let expected = format!("1 to {}, one per prompt at most", prompts.len());
        return wrong("groups in flight", in_flight.to_string(), expected);
    }
    if server.size() != server.stages.len() || server.stages.layout().chunks() != 1 {
        let expected = format!("{} ranks, one chunk each", server.size());
        return wrong("stages", server.stages.len().to_string(), expected);
    }
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let needed = longest.saturating_add(options.max_tokens);
    if needed > config.context {
        return Err(decoder::Error::ContextLength { needed, available: config.context }.into());
    }
    Ok(())
}
