//! One decoder layer under the magnifier: its operations in order, with shapes, FLOPs and bytes, for the two kinds of pass that
//! generation is made of.
//!
//! [`Plan::run`] sends a prompt through the model (prefill), then one token more (a decode step), and keeps what was heard of one
//! layer, of the embedding before it and of the head behind it. `figure` draws the layer with the shapes filled in.

mod figure;

use candle_core::DType;
use decoder::cache::KvCache;
use decoder::shape::ModelShape;
use decoder::{Config, Context, Decoder, Tokens};
use lab::anatomy::{Pass, Step, beside_formulas, observe};
use lab::numbers;
use lab::table::Table;
use ledger::Bytes;
use serde::Serialize;

/// What is observed, checked against the model.
#[derive(Clone, Debug)]
pub struct Plan {
    config: Config,
    layer: usize,
    prompt: usize,
    batch: usize,
}

/// One pass through the layer.
#[derive(Clone, Debug, Serialize)]
pub struct Passage {
    /// Sequences.
    pub batch: u64,
    /// New tokens per sequence.
    pub new: u64,
    /// Tokens per sequence in the cache.
    pub past: u64,
    /// What happened, in order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Layer `layer` for `batch` prompts of `prompt` tokens.
    ///
    /// # Errors
    /// A flag whose value does not fit the model.
    pub fn new(config: &Config, layer: usize, prompt: usize, batch: usize) -> lab::Result<Self> {
        let refuse =
            |flag, found: usize, expected: String| Err(lab::Error::Flag { flag, found: found.to_string(), expected });
        if layer >= config.layers {
            return refuse("--layer", layer, format!("the model has the layers 0 to {}", config.layers - 1));
        }
        if prompt == 0 || prompt >= config.context {
            let most = config.context - 1;
            return refuse("--prompt-len", prompt, format!("1 to {most}, so that one more token fits the context"));
        }
        if batch == 0 || batch > MOST_SEQUENCES {
            return refuse("--batch", batch, format!("1 to {MOST_SEQUENCES} sequences"));
        }
        Ok(Self { config: config.clone(), layer, prompt, batch })
    }

    /// Prefill, then a decode step, on `model` whose weights are held as `weights`.
    ///
    /// # Errors
    /// A pass failed, or the formulas refuse the numbers.
    pub fn run(&self, model: &Decoder, weights: DType) -> lab::Result<[Passage; 2]> {
        let mut cache = model.cache(self.batch, self.prompt + 1)?;
        let prefill = self.pass(model, weights, self.prompt, 0, &mut cache)?;
        let decode = self.pass(model, weights, 1, self.prompt, &mut cache)?;
        Ok([prefill, decode])
    }

    fn pass(
        &self,
        model: &Decoder,
        weights: DType,
        new: usize,
        past: usize,
        cache: &mut dyn KvCache,
    ) -> lab::Result<Passage> {
        // Costs do not depend on which tokens they are.
        let row: Vec<u32> = (past..past + new).map(|position| (position % self.config.vocab) as u32).collect();
        let tokens = Tokens::new(&vec![&row[..]; self.batch], vec![past; self.batch], model.device())?;
        let events = observe(model, &Context::inference(), &tokens, self.layer, Some(cache))?;
        let (batch, new, past) = (self.batch as u64, new as u64, past as u64);
        let pass = Pass { batch, new, past, weights, activations: model.activations() };
        let shape = ModelShape::from_config(&self.config)?;
        let steps = beside_formulas(&events, &shape, self.layer as u64, pass)?;
        Ok(Passage { batch, new, past, steps })
    }

    /// The passage as a table, a line for each operation and for each split point.
    pub fn table(&self, passage: &Passage) -> Table {
        let own = format!("model.layers.{}.", self.layer);
        let mut table = Table::new(["operation", "weight", "result", "FLOP", "bytes", "FLOP/B"]);
        for step in &passage.steps {
            match step {
                Step::Point { point } => table.push(["─────────".to_owned(), format!("{point} ──")]),
                Step::Operation { operation, weight, shape, flops, bytes, predicted } => table.push([
                    (*operation).to_owned(),
                    weight.strip_prefix(&own).unwrap_or(weight).trim_end_matches(".weight").to_owned(),
                    format!("{shape:?}"),
                    beside(*flops, predicted.map(|cost| cost.flops)),
                    beside(*bytes, predicted.map(|cost| cost.bytes)),
                    intensity(*flops, *bytes),
                ]),
            }
        }
        table
    }

    /// The layer as a figure, with the shapes of `passage` filled in.
    pub fn figure(&self, passage: &Passage) -> String {
        figure::draw(&self.config, self.layer, passage)
    }
}

/// More side by side tell nothing new and need memory.
const MOST_SEQUENCES: usize = 4096;

impl Passage {
    /// What passes, in words.
    pub fn describe(&self) -> String {
        let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (sequences, new) = (plural(self.batch, "sequence"), plural(self.new, "new token"));
        match self.past {
            0 => format!("{sequences}, {new} each, nothing in the cache"),
            past => format!("{sequences}, {new} each, {} in the cache", plural(past, "token")),
        }
    }

    /// Sums over the layer alone, in words.
    pub fn totals(&self) -> String {
        let (mut products, mut other, mut moved) = (0, 0, 0);
        for step in self.layer_steps() {
            if let Step::Operation { flops, bytes, predicted, .. } = step {
                *(if predicted.is_some() { &mut products } else { &mut other }) += flops;
                moved += bytes;
            }
        }
        let (all, bytes) = (numbers::flops((products + other) as f64), Bytes(moved));
        let share = numbers::percent(products as f64 / (products + other) as f64);
        format!(
            "the layer: {all}, {share} of it in matrix products; {bytes} moved; {} FLOP/B",
            intensity(products, moved)
        )
    }

    /// The steps between embedding and final norm.
    fn layer_steps(&self) -> impl Iterator<Item = &Step> {
        let in_layer = |step: &&Step| match step {
            Step::Operation { operation, weight, .. } => {
                weight.contains(".layers.") || (weight.is_empty() && *operation != "embedding")
            }
            Step::Point { .. } => false,
        };
        self.steps.iter().filter(in_layer)
    }
}

/// An observed number, and whether it is the formula's.
fn beside(observed: u64, predicted: Option<u64>) -> String {
    let observed_text = numbers::grouped(observed);
    match predicted {
        None => observed_text + "  ",
        Some(predicted) if predicted == observed => observed_text + " ✓",
        Some(predicted) => format!("{observed_text} ✗ {}", numbers::grouped(predicted)),
    }
}

fn intensity(flops: u64, bytes: u64) -> String {
    numbers::plain(flops as f64 / bytes.max(1) as f64)
}
