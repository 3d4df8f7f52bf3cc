//! Stops 4 to 6: what tensor parallelism sends and holds, and which link it needs.

use super::{Visit, bundled};
use crate::commands::communication::{Communication, comparison, links, table};
use crate::commands::memory;
use crate::communication::of_operation;
use anyhow::Context as _;
use candle_core::DType;
use clap::Parser;
use collective::{Operation, Options, launch};
use lab::compared::Unit;
use lab::numbers;
use ledger::Bytes;

/// The subcommand with its defaults.
#[derive(Parser, Debug)]
struct Defaults<T: clap::Args> {
    #[command(flatten)]
    command: T,
}

fn defaults<T: clap::Args>(flags: &[&str]) -> anyhow::Result<T> {
    let flags = std::iter::once("tour").chain(flags.iter().copied());
    Ok(Defaults::try_parse_from(flags)?.command)
}

impl Visit<'_> {
    pub(super) fn bytes(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F32)?;
        let command: Communication = defaults(&["--tp", "4"])?;
        let batch = command.tokens(&described)?;
        let (layers, hidden) = (described.config.layers, described.config.hidden);
        let tokens = batch.rows * batch.seq;
        let guide = &mut self.guide;
        guide.stop("The bytes of a training step")?;
        let guess = guide.question(&format!(
            "{layers} layers, {tokens} tokens, hidden states of {hidden} numbers. How many all-reduces does one training step need on 4 ranks?"
        ))?;
        guide.prediction(&format!(
            "Two per layer forward, two backward: 4 · {layers}. The embedding and the head's input gradient add one each, the loss three (of one \
             number per token: the logits are never gathered), the norm for clipping one: {}.",
            4 * layers + 6
        ))?;
        let ranks = launch(4, &Options::default(), |rank| command.step(self.core, rank, &described, &batch))?;
        let counted = ranks.into_iter().next().context("at least one rank")?;
        guide.show(&table(&counted.predicted))?;
        guide.show(&comparison(&counted))?;
        let calls = counted.traffic.of(Operation::AllReduce).0;
        let predicted = of_operation(&counted.predicted, Operation::AllReduce);
        let verdict = if predicted.calls == calls { "as the formula says" } else { "not as the formula says" };
        guide.measured(
            &format!("{calls} all-reduces, {verdict}; {} sent by each rank.", Bytes(counted.traffic.sent().total())),
            &guess,
            calls as f64,
            Unit::Count,
        )?;
        Ok(guide.notice(
            "Bytes grow with tokens and hidden size, not with the parameters. And every one of them is waited for: the next product needs the sum.",
            "cargo ch3 communication --tp 4 --sequence-parallel",
        )?)
    }

    pub(super) fn memory(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F32)?;
        let command: memory::Memory = defaults(&[])?;
        let figure = self.figure("memory.svg");
        let guide = &mut self.guide;
        guide.stop("The wall of chapter 1")?;
        let guess = guide.question(
            "Training on 4 x 128 tokens did not fit on a device of 64 MiB: weights 7, gradients 7, moments 14, activations 45.5 MiB. How many MiB of \
             activations does each of 2 ranks hold?",
        )?;
        guide.prediction(
            "More than half. Within the blocks each rank has half of the width; the hidden states between them, seven per layer, are on both.",
        )?;
        let plan = command.plan()?;
        let mut rows = Vec::new();
        for tp in [1, 2, 4] {
            rows.push(command.row(&described, &plan, tp, Some(memory::WALL.0))?);
        }
        guide.show(&memory::table(&rows))?;
        memory::chart(&rows).write(&figure)?;
        let of_two = memory::activations(&rows[1]).map_or(0.0, |bytes| Bytes(bytes).mebibytes());
        let fits = if memory::fits(&rows[1]) { "and two ranks fit" } else { "and two ranks do not fit" };
        guide.measured(&format!("{of_two:.1} MiB, {fits} where one device did not."), &guess, of_two, Unit::Number)?;
        Ok(guide.notice(
            "Weights, gradients and moments are divided by tp: this is what data parallelism cannot do. Sequence parallelism divides the activations between the \
             blocks, too, for the same bytes.",
            "cargo ch3 memory --sequence-parallel --regather",
        )?)
    }

    pub(super) fn links(&mut self) -> anyhow::Result<()> {
        let figure = self.figure("links.svg");
        let cases = links::cases()?;
        let guide = &mut self.guide;
        guide.stop("Why a tensor-parallel group stays inside of a node")?;
        let guess = guide.question(
            "Llama 3.1 70B in bf16 on 8 H100, 4096 tokens per step. Over NVLink the reductions take a fifth of the step. Which share (in percent) over \
             10-gigabit Ethernet?",
        )?;
        guide.prediction(
            "322 reductions of 64 MiB. Around a ring each rank sends 7/4 of that: 36 GiB per step, at 450 GB/s or at 1.25 GB/s.",
        )?;
        guide.show(&links::table(&cases))?;
        links::chart(&cases).write(&figure)?;
        let share = links::waiting(&cases, "Ethernet", 8).unwrap_or(0.0);
        guide.measured(&format!("{} of the step.", numbers::percent(share)), &guess, 100.0 * share, Unit::Number)?;
        Ok(guide.notice(
            "The next product waits for the sum, so nothing hides these bytes. Inside of a node tensor parallelism; between nodes what sends less, or \
             less often: chapters 2 and 4. A long prompt is cut by tokens instead.",
            "cargo ch3 communication; cargo ch3 long",
        )?)
    }
}
