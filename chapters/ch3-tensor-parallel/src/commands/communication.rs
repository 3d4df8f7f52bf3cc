//! `cargo ch3 communication`: every reduction of a training step and of a decode step, predicted and counted; and what they cost over
//! several links, which is why a tensor-parallel group stays inside of a node.

pub(super) mod links;

use super::sequence::SequenceFlags;
use crate::communication::{Exchange, Tokens, counted, of_operation, total};
use crate::core::Core;
use crate::{Error, Layout};
use anyhow::Context as _;
use ch2_data_parallel::traffic::Volume;
use clap::Args;
use collective::{Algorithm, Operation, Options, Rank, Topology, launch};
use lab::compared::Unit;
use lab::flags::{DeviceFlags, ModelFlags, OutputFlags, TensorParallelFlags, WithFlags, within};
use lab::loaded::Described;
use lab::program::{Output, write_json};
use lab::{Compared, Comparison, Table, ask};
use ledger::Bytes;
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use training::data::Batch;
use training::gradients::Gradients;
use training::plan::MOST_ROWS;

/// What `cargo ch3 communication` takes.
#[derive(Args, Debug)]
pub(super) struct Communication {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: TensorParallelFlags,
    #[command(flatten)]
    sequence: SequenceFlags,
    #[command(flatten)]
    with: WithFlags,
    /// How collective operations are done: direct, ring, tree, hierarchical
    #[arg(long, value_name = "ALGORITHM", default_value_t = Algorithm::Ring)]
    algorithm: Algorithm,
    /// Sequences of the training step
    #[arg(long, value_name = "ROWS", default_value_t = 4)]
    batch: usize,
    /// Tokens of each
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    seq: usize,
    #[command(flatten)]
    output: OutputFlags,
}

/// What one rank counted.
pub(super) struct Counted {
    pub(super) predicted: Vec<Exchange>,
    pub(super) traffic: collective::Traffic,
}

impl Communication {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let layout = Layout::new(&described.config, self.parallel.tp)?;
        let options = Options { algorithm: self.algorithm, ..Options::default() };
        let batch = self.tokens(&described)?;
        let guess = match self.output.predict {
            true => ask::number("How many collective calls does a training step make on each rank?")?,
            false => None,
        };
        let step = first(launch(layout.tp(), &options, |rank| self.step(core, rank, &described, &batch))?)?;
        let decode = first(launch(layout.tp(), &options, |rank| self.decode(core, rank, &described))?)?;
        let cases = links::cases()?;
        if let Some(path) = &plot {
            links::chart(&cases).write(path)?;
        }
        if self.output.json {
            let document = |counted: &Counted| {
                let exchanges = counted.predicted.iter().map(|exchange| {
                    let Volume { calls, payload, sent } = exchange.volume;
                    json!({ "what": exchange.what, "operation": exchange.operation.name(), "calls": calls,
                            "payload": payload, "sent": sent.total() })
                });
                json!({ "exchanges": exchanges.collect::<Vec<_>>(), "comparison": comparison(counted) })
            };
            let document = json!({ "tp": layout.tp(), "training": document(&step), "decode": document(&decode),
                                   "links": links::document(&cases) });
            return write_json(out, &document);
        }
        let (rows, seq) = (self.batch, self.seq);
        writeln!(out, "A training step of {rows} x {seq} tokens, sent by rank 0 of {}:\n", layout.tp())?;
        writeln!(out, "{}\n\n{}\n", table(&step.predicted), comparison(&step))?;
        if let Some(guess) = guess {
            writeln!(out, "{}\n", ask::beside(guess, step.traffic.calls() as f64, Unit::Count))?;
        }
        writeln!(out, "One token of one sequence, generated:\n")?;
        writeln!(out, "{}\n\n{}\n", table(&decode.predicted), comparison(&decode))?;
        writeln!(out, "{}", links::text(&cases))?;
        if let Some(path) = plot {
            writeln!(out, "\nfigure: {}", path.display())?;
        }
        Ok(())
    }

    /// Tokens without meaning: what is sent does not depend on them.
    pub(super) fn tokens(&self, described: &Described) -> anyhow::Result<Batch> {
        let (context, vocab) = (described.config.context, described.config.vocab);
        within("--batch", self.batch, 1..=MOST_ROWS)?;
        within("--seq", self.seq, 1..=context)?;
        let ids: Vec<u32> = (0..self.batch * self.seq).map(|token| (token * 7 % vocab) as u32).collect();
        Ok(Batch { inputs: ids.clone(), targets: ids, rows: self.batch, seq: self.seq })
    }

    /// Forward, backward, and the sums of gradients and squares after it.
    pub(super) fn step(&self, core: Core, rank: &Rank, described: &Described, batch: &Batch) -> Result<Counted, Error> {
        let tensor = self.sequence.tensor(core, &described.config, rank)?;
        let model = described.load(&tensor.training_split())?;
        let sink = Arc::new(Gradients::expected(&model, 1));
        let mut ctx = tensor.training(rank.observer());
        ctx.sink = Some(sink.clone());
        training::accumulation::forward_backward(&model, &ctx, std::slice::from_ref(batch), batch.count())?;
        let mut gradients = sink.finish()?;
        tensor.synchronise(&mut gradients)?;
        tensor.sum_of_squares(&gradients, 0)?;
        let formula = self.formula(&tensor, &model);
        let predicted = [
            formula.setup(),
            formula.training(Tokens { rows: batch.rows, seq: batch.seq }, self.sequence.inputs()),
            formula.synchronisation(self.sequence.sequence_parallel),
            formula.norm(),
        ];
        Ok(Counted { predicted: predicted.concat(), traffic: rank.traffic() })
    }

    /// One token through all layers, and its logits.
    fn decode(&self, core: Core, rank: &Rank, described: &Described) -> Result<Counted, Error> {
        let tensor = self.sequence.tensor(core, &described.config, rank)?;
        let model = described.load(&tensor.split())?;
        let mut cache = model.cache(1, 1)?;
        let tokens = decoder::Tokens::from_zero(&[&[1]], model.device())?;
        model.next_token_logits(&tensor.inference(rank.observer()), &tokens, Some(&mut cache))?;
        let formula = self.formula(&tensor, &model);
        let predicted = [formula.setup(), formula.forward(Tokens { rows: 1, seq: 1 }), formula.logits(1)].concat();
        Ok(Counted { predicted, traffic: rank.traffic() })
    }

    fn formula(&self, tensor: &crate::TensorParallel, model: &decoder::Decoder) -> crate::communication::Predictor {
        tensor.predictor(self.algorithm, &Topology::default(), model.activations().size_in_bytes())
    }
}

fn first<T>(ranks: Vec<T>) -> anyhow::Result<T> {
    ranks.into_iter().next().context("at least one rank")
}

/// What for, how, how often, how much.
pub(super) fn table(exchanges: &[Exchange]) -> Table {
    let header = ["what", "operation", "calls", "operands", "sent"];
    let rows = exchanges.iter().map(|exchange| {
        let Volume { calls, payload, sent } = exchange.volume;
        [
            exchange.what.to_owned(),
            exchange.operation.to_string(),
            calls.to_string(),
            Bytes(payload).to_string(),
            Bytes(sent.total()).to_string(),
        ]
    });
    rows.fold(Table::new(header), Table::row)
}

/// Operation by operation, predicted beside counted.
pub(super) fn comparison(counted_here: &Counted) -> Comparison {
    let operations = [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter];
    let mut comparison = Comparison::default();
    for operation in operations {
        let predicted = of_operation(&counted_here.predicted, operation);
        let counted = counted(&counted_here.traffic, operation);
        if predicted.calls + counted.calls > 0 {
            let calls = format!("{operation}: calls");
            comparison.push(Compared::exact(calls, predicted.calls, Some(counted.calls), Unit::Count));
            let (predicted, counted) = (predicted.sent.total(), counted.sent.total());
            comparison.push(Compared::exact(format!("{operation}: sent"), predicted, Some(counted), Unit::Bytes));
        }
    }
    let all = total(&counted_here.predicted).sent.total();
    comparison.with(Compared::exact("all: sent", all, Some(counted_here.traffic.sent().total()), Unit::Bytes))
}
