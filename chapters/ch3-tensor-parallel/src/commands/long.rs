//! `cargo ch3 long`: a long prompt over context-parallel ranks: keys and values, pairs of attention, bytes around the ring.

use crate::Error;
use crate::communication::{counted, ring};
use crate::context::cache::PromptCache;
use crate::context::{ContextParallel, zigzag};
use crate::core::Core;
use candle_core::DType;
use clap::Args;
use collective::{Operation, Rank, launch};
use decoder::cache::KvCache;
use decoder::shape::published;
use decoder::split::Split;
use decoder::{Config, Context};
use lab::compared::Unit;
use lab::flags::{ClusterFlags, DeviceFlags, MemoryFlags, ModelFlags, OutputFlags, WithFlags};
use lab::loaded::Described;
use lab::plot::{Axis, Bars};
use lab::program::{Output, write_json};
use lab::{Table, ask, numbers};
use ledger::{Bytes, Kind};
use serde_json::json;
use std::io::Write;

/// The recurring case: one user at 32K tokens.
const CASE: (&str, u64) = ("Llama 3.1 70B", 32 << 10);
const RANKS: [usize; 4] = [1, 2, 4, 8];

/// What `cargo ch3 long` takes.
#[derive(Args, Debug)]
pub(super) struct Long {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Context-parallel ranks
    #[arg(long, visible_alias = "context-parallel-size", value_name = "RANKS", default_value_t = 4)]
    cp: usize,
    /// Tokens of the prompt [default: the model's context]
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    memory: MemoryFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// What one rank did with its part of the prompt.
struct Part {
    tokens: usize,
    pairs: u64,
    /// Bytes of keys and values: by formula, and as the ledger counted them.
    kv: (u64, Option<u64>),
    /// Bytes sent: by formula, counted.
    sent: (u64, u64),
    seconds: f64,
}

impl Long {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let plot = self.output.plot()?;
        let core = Core::choose(&self.with)?;
        let described = Described::from_flags(&self.model, &self.device)?;
        let length = self.context.unwrap_or(described.config.context);
        if length > described.config.context {
            let expected = format!("at most the model's context, {}", described.config.context);
            return Err(lab::Error::Flag { flag: "--context", found: length.to_string(), expected }.into());
        }
        if length < 2 {
            let expected = "at least 2 tokens: every rank has two chunks".to_owned();
            return Err(lab::Error::Flag { flag: "--context", found: length.to_string(), expected }.into());
        }
        if !(1..=length / 2).contains(&self.cp) {
            let expected = format!("1 to {} ranks: {length} tokens are cut into two chunks per rank", length / 2);
            return Err(lab::Error::Flag { flag: "--cp", found: self.cp.to_string(), expected }.into());
        }
        let guess = match self.output.predict {
            true => ask::number("How many KiB does a rank send for this prompt?")?,
            false => None,
        };
        let options = self.cluster.options(described.dtype, &self.memory)?;
        let parts = launch(self.cp, &options, |rank| self.part(core, rank, &described, length))?;
        if let Some(path) = &plot {
            chart(length, self.cp).write(path)?;
        }
        if self.output.json {
            let part = |part: &Part| {
                json!({ "tokens": part.tokens, "pairs": part.pairs, "kv_predicted": part.kv.0, "kv_counted": part.kv.1,
                        "sent_predicted": part.sent.0, "sent_counted": part.sent.1, "seconds": part.seconds })
            };
            let parts: Vec<_> = parts.iter().map(part).collect();
            return write_json(out, &json!({ "cp": self.cp, "context": length, "ranks": parts }));
        }
        writeln!(out, "A prompt of {length} tokens over {} ranks; predicted and, in brackets, counted:\n", self.cp)?;
        writeln!(out, "{}\n", table(&parts))?;
        if let Some(bytes @ 1..) = parts.first().and_then(|part| part.kv.1?.checked_sub(part.kv.0)) {
            writeln!(
                out,
                "Counted keys and values include {} that tensors take beside their numbers.\n",
                Bytes(bytes)
            )?;
        }
        if let (Some(guess), Some(part)) = (guess, parts.first()) {
            writeln!(out, "{}\n", ask::beside(guess, part.sent.1 as f64 / 1024., Unit::Number))?;
        }
        let slowest = parts.iter().map(|part| part.seconds).fold(0.0, f64::max);
        writeln!(out, "it takes {} on {}\n", numbers::seconds(slowest), self.cluster.clock_text())?;
        let (model, context) = CASE;
        writeln!(out, "{model} in bf16, one prompt of {context} tokens:\n\n{}", case()?)?;
        if let Some(path) = plot {
            writeln!(out, "\nfigure: {}", path.display())?;
        }
        Ok(())
    }

    fn part(&self, core: Core, rank: &Rank, described: &Described, length: usize) -> Result<Part, Error> {
        let config = &described.config;
        let parallel = ContextParallel::new(core, rank.communicator(), &[length])?;
        let model = described.load(&Split::whole())?;
        let ids: Vec<u32> = (0..length).map(|token| (token * 7 % config.vocab) as u32).collect();
        let tokens = parallel.tokens(&[ids], model.device())?;
        let ctx = Context::inference().with_split(parallel.split(Split::whole())).with_observer(rank.observer());
        let mut cache = PromptCache::new(config.layers, length);
        let begun = rank.clock().now();
        model.next_token_logits(&ctx, &tokens, Some(&mut cache))?;
        let chunks = parallel.chunks(0, rank.rank());
        let element = model.activations().size_in_bytes();
        let held = rank.ledger().snapshot().map(|held| held.of(Kind::KvCache).current);
        let place =
            collective::volume::Place::of(rank.rank(), rank.communicator().members(), &self.cluster.topology()?);
        let seq: Vec<usize> = (0..rank.size()).map(|rank| parallel.seq(rank)).collect();
        let forward = ring(&place, config, 1, &seq, element);
        Ok(Part {
            tokens: chunks.iter().map(ExactSizeIterator::len).sum(),
            pairs: zigzag::pairs(&chunks),
            kv: (kv_bytes(config, 2 * seq[rank.rank()], element), held.or(Some(cache.bytes()))),
            sent: (forward.sent.total(), counted(&rank.traffic(), Operation::SendReceive).sent.total()),
            seconds: rank.clock().now() - begun,
        })
    }
}

fn kv_bytes(config: &Config, tokens: usize, element: usize) -> u64 {
    (2 * config.layers * config.kv_width() * tokens * element) as u64
}

fn table(parts: &[Part]) -> Table {
    let header = ["rank", "tokens", "pairs of query and key", "keys and values", "sent"];
    parts.iter().enumerate().fold(Table::new(header), |table, (rank, part)| {
        let counted = part.kv.1.map_or_else(|| lab::table::NOT_MEASURED.to_owned(), |bytes| Bytes(bytes).to_string());
        table.row([
            rank.to_string(),
            part.tokens.to_string(),
            numbers::grouped(part.pairs),
            format!("{} ({counted})", Bytes(part.kv.0)),
            format!("{} ({})", Bytes(part.sent.0), Bytes(part.sent.1)),
        ])
    })
}

/// The recurring case: bytes of keys and values per rank, and how unequal the work would be without zigzag.
fn case() -> anyhow::Result<Table> {
    let (model, context) = CASE;
    let shape = published(model)?.shape;
    let kv = shape.kv_bytes(context, 1, DType::BF16)?;
    let header = ["cp", "tokens", "KV cache per rank", "pairs per rank, zigzag", "last rank, consecutive", "more work"];
    let length = context as usize;
    Ok(RANKS.into_iter().fold(Table::new(header), |table, cp| {
        let even = zigzag::pairs(&zigzag::chunks_of_rank(length, cp, cp - 1));
        let last = zigzag::pairs(std::slice::from_ref(&(length - length / cp..length)));
        table.row([
            cp.to_string(),
            (length / cp).to_string(),
            Bytes(kv / cp as u64).to_string(),
            numbers::count(even as f64),
            numbers::count(last as f64),
            numbers::ratio(last as f64 / even as f64),
        ])
    }))
}

/// Pairs per rank, consecutive chunks beside zigzag.
fn chart(length: usize, cp: usize) -> Bars {
    let groups = (0..cp).map(|rank| format!("rank {rank}"));
    let consecutive = (0..cp).map(|rank| zigzag::pairs(&[collective::chunk(length, cp, rank)]) as f64);
    let zigzag = (0..cp).map(|rank| zigzag::pairs(&zigzag::chunks_of_rank(length, cp, rank)) as f64);
    let title = format!("Pairs of query and key, {length} tokens");
    Bars::grouped(title, groups, Axis::linear("pairs per head"))
        .series("consecutive", consecutive.collect::<Vec<_>>())
        .series("zigzag", zigzag.collect::<Vec<_>>())
}
