//! Stops 1 to 4: what one device computes.

use super::Visit;
use crate::anatomy::{Passage, Plan};
use crate::commands::{kv, xw};
use crate::core::ProductCost;
use crate::kv::{Steps, allocated, decode_steps};
use crate::xw::{Cost, Matrix, Measured, Product};
use anyhow::Context as _;
use candle_core::DType;
use decoder::Context;
use decoder::generation::{Options, generate};
use lab::anatomy::Step;
use lab::compared::Unit;
use lab::roofline::Roofline;
use lab::{Compared, Comparison, Table, numbers};
use std::ops::ControlFlow;
use std::time::Duration;

/// What the model continues, and by how many tokens.
const PROMPT: &str = "the dog";
const NEW_TOKENS: usize = 12;
/// Sides of the square W: 16 MiB in f32.
const SIDE: u64 = 2048;
const ROWS: [u64; 4] = [1, 16, 64, 512];
/// Rows that are asked for, beside 1.
const MANY: u64 = 64;
/// How long each product and each step is measured.
const BUDGET: Duration = Duration::from_millis(100);
/// Tokens of the prompt that the layer reads.
const PREFILL: usize = 32;
/// The product behind the last layer, which is not part of it.
const HEAD: &str = "lm_head";
/// Tokens of context of the steps that are run with and without a cache.
const CONTEXTS: [usize; 3] = [32, 128, 512];
/// The twenty users of the recurring case.
const USERS: usize = 20;

impl Visit<'_> {
    pub(super) fn one_token_after_another(&mut self) -> anyhow::Result<()> {
        let tokenizer = self.described.tokenizer()?;
        let prompt = tokenizer.encode(PROMPT, true)?;
        let guide = &mut self.guide;
        guide.stop("One token after another")?;
        let guess = guide.question(&format!(
            "The model continues \"{PROMPT}\" by {NEW_TOKENS} tokens. How often must the whole model be run?"
        ))?;
        guide.prediction(&format!(
            "{NEW_TOKENS} times: a pass gives the next token only, and that token is the input of the next pass."
        ))?;
        guide.line("")?;
        let options = Options { max_tokens: NEW_TOKENS, stop_at_eos: false, ..Options::default() };
        let (mut read, mut passes, mut told) = (format!("{PROMPT:?}"), 0, Ok(()));
        let ids = [prompt];
        let generated = generate(&self.model, &Context::inference(), &ids, &options, |_, id| {
            let token = format!("{:?}", tokenizer.decode(&[id], false)?);
            passes += 1;
            told = guide.line(&format!("pass {passes:>2}   {read:>12}  →  {token}"));
            read = token;
            Ok(if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        told?;
        let text: String = generated.ids.iter().map(|ids| tokenizer.decode(ids, true)).collect::<Result<_, _>>()?;
        guide.line("")?;
        let runs = generated.steps + 1;
        let rate = generated.decode_rate().map_or_else(String::new, |rate| numbers::rate(rate, "tokens"));
        guide.measured(&format!("{runs} passes, {rate}: {PROMPT}{text}"), &guess, runs as f64, Unit::Count)?;
        guide.notice(
            "A token cannot be computed before the one on its left is known. Reading a prompt can be done in one pass, \
             writing cannot.",
            "cargo ch1 generate --prompt \"the dog\"",
        )?;
        Ok(())
    }

    pub(super) fn one_product(&mut self) -> anyhow::Result<Roofline> {
        let guide = &mut self.guide;
        guide.stop("X · W = Y, data times parameters")?;
        let guess = guide.question(&format!(
            "X has a row for each token, W [{SIDE}, {SIDE}] is a parameter. {MANY} rows are {MANY} times the arithmetic \
             of 1 row. How many times as long do they take?"
        ))?;
        let before = Roofline::measure_cpu()?;
        let [one, many] = [1, MANY].map(|rows| Product::new(rows, SIDE, SIDE, DType::F32));
        let cost = self.core.product_cost;
        let (one, many) = (cost(&one?), cost(&many?));
        guide.prediction(&format!(
            "at least {}: this machine reads {} and computes {}, so a product with less than {} FLOP per byte waits for \
             memory. 1 row has {}, {MANY} rows have {}.",
            numbers::ratio(at_least(&before, &many) / at_least(&before, &one)),
            numbers::bandwidth(before.bandwidth),
            numbers::flop_rate(before.peak),
            numbers::plain(before.ridge()),
            numbers::plain(one.intensity()),
            numbers::plain(many.intensity()),
        ))?;
        let matrix = Matrix::new(SIDE, SIDE, DType::F32)?;
        let measured = ROWS.map(|rows| matrix.measure(rows, BUDGET)).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        drop(matrix);
        // A machine that others use, too, is not always equally fast.
        let roof = before.max(Roofline::measure_cpu()?);
        guide.show(&products_table(&measured, cost, &roof))?;
        let with = |rows| measured.iter().find(|measured| measured.product.rows() == rows);
        let (one, many) = with(1).zip(with(MANY)).context("1 and 64 rows are among those measured")?;
        let times = many.timing.fastest / one.timing.fastest;
        let text = format!("{} the time for {MANY} times the arithmetic.", numbers::ratio(times));
        guide.measured(&text, &guess, times, Unit::Number)?;
        guide.notice(
            "One row reads all of W for 2 FLOP per element: memory decides. Many rows read it once for all of them: \
             arithmetic decides. This is why serving many users together pays. \"At least\" is the roof; how near the \
             products come to it is in the lesson.",
            "cargo ch1 xw",
        )?;
        let points =
            measured.iter().map(|measured| (measured.counted.intensity(), measured.rate())).collect::<Vec<_>>();
        xw::under_the_roof(&format!("W [{SIDE}, {SIDE}] f32"), &roof, &points).write(&self.figure("xw.svg"))?;
        Ok(roof)
    }

    pub(super) fn one_layer(&mut self) -> anyhow::Result<()> {
        let plan = Plan::new(&self.described.config, 0, PREFILL, 1)?;
        let [prefill, decode] = plan.run(&self.model, self.described.dtype)?;
        let guide = &mut self.guide;
        guide.stop("One decoder layer")?;
        let guess = guide.question(&format!(
            "Layer 0 has {} parameters. How many FLOP does it spend on one token?",
            numbers::grouped(self.shape.layer_parameters(0)?)
        ))?;
        let (predicted, counted) = products(&decode);
        guide.prediction(&format!(
            "{} in matrix products: 2 for each element of a matrix, and 4 · heads · head_dim for each of the {} keys that \
             the token sees.",
            numbers::grouped(predicted),
            PREFILL + 1
        ))?;
        let shown = |step: &Step| match step {
            Step::Point { .. } => true,
            Step::Operation { weight, predicted, .. } => predicted.is_some() && !weight.starts_with(HEAD),
        };
        let steps = decode.steps.iter().filter(|step| shown(step)).cloned().collect();
        guide.show(&plan.table(&Passage { steps, ..decode.clone() }))?;
        let verdict = if predicted == counted { "equal" } else { "not equal" };
        guide.measured(
            &format!("{}, {verdict}, as the operations report it when they run.", numbers::grouped(counted)),
            &guess,
            counted as f64,
            Unit::Flops,
        )?;
        for (tokens, passage) in [("1 token", &decode), ("32 tokens", &prefill)] {
            guide.labelled("", &passage.totals().replace("the layer", tokens))?;
        }
        guide.notice(
            "The lines ─── are split points: where a layer may be cut over devices without changing its result. The \
             chapters 3 to 5 put their part there.",
            "cargo ch1 layer",
        )?;
        Ok(())
    }

    pub(super) fn the_cache(&mut self) -> anyhow::Result<()> {
        let guide = &mut self.guide;
        let longest = CONTEXTS[CONTEXTS.len() - 1];
        guide.stop("The KV cache: memory in place of arithmetic")?;
        let guess = guide.question(&format!(
            "Keys and values of past tokens do not change. How many times the FLOPs does the {longest}th token take if \
             they are not kept?"
        ))?;
        let flops = |context: usize| {
            let context = context as u64;
            let cached = self.shape.decode_step_flops(1, context)?.total();
            Ok::<_, decoder::Error>(
                self.shape.decode_step_without_cache_flops(1, context)?.total() as f64 / cached as f64,
            )
        };
        guide.prediction(&format!(
            "{}: without them all {longest} tokens are computed again. Kept, they take layers · 2 · kv_heads · head_dim · \
             4 bytes per token and sequence.",
            numbers::ratio(flops(longest)?)
        ))?;
        let steps = decode_steps(&self.model, &CONTEXTS, BUDGET)?;
        let mut bytes = Comparison::default();
        for (batch, whose) in [(1, "one user"), (USERS, "20 users")] {
            let predicted = (self.core.cache_bytes)(self.model.config(), longest, batch, self.model.activations())?;
            let measured = allocated(&self.model, longest, batch)?;
            bytes.push(Compared::exact(
                format!("cache of {whose}, {longest} tokens"),
                predicted,
                measured,
                Unit::Bytes,
            ));
        }
        guide.show(&format!("{}\n\n{bytes}", steps_table(&steps)))?;
        let last = steps.last().context("no step was run")?;
        let times = last.uncached.counted.total() as f64 / last.cached.counted.total() as f64;
        let seconds = last.uncached.timing.median / last.cached.timing.median;
        guide.measured(
            &format!("{} the FLOPs, {} the time at {longest} tokens.", numbers::ratio(times), numbers::ratio(seconds)),
            &guess,
            times,
            Unit::Number,
        )?;
        guide.notice(
            "With the cache a step costs nearly the same at any context; only its attention grows. The price is memory \
             that grows with every token of every user.",
            "cargo ch1 kv",
        )?;
        kv::figure::flops_chart(&steps, &self.shape)?.write(&self.figure("kv.svg"))?;
        Ok(())
    }
}

/// Seconds under the roof.
fn at_least(roof: &Roofline, cost: &Cost) -> f64 {
    roof.seconds(cost.flops as f64, cost.bytes as f64)
}

fn products_table(measured: &[Measured], cost: ProductCost, roof: &Roofline) -> Table {
    let mut table = Table::new(["rows", "FLOP", "FLOP/byte", "waits for", "at least", "measured", "achieved"]);
    for row in measured {
        let Measured { product, timing, .. } = row;
        let cost = cost(product);
        let intensity = cost.intensity();
        table.push([
            product.rows().to_string(),
            numbers::flops(cost.flops as f64),
            numbers::plain(intensity),
            roof.bound(intensity).to_string(),
            numbers::seconds(at_least(roof, &cost)),
            numbers::seconds(timing.fastest),
            numbers::flop_rate(row.rate()),
        ]);
    }
    table
}

fn steps_table(steps: &[Steps]) -> Table {
    let mut table = Table::new(["context", "with the cache", "time", "without", "time", "FLOPs as predicted"]);
    for Steps { context, cached, uncached } in steps {
        let equal = [cached, uncached].iter().all(|step| step.predicted == step.counted);
        let cells = [cached, uncached]
            .map(|step| [numbers::flops(step.counted.total() as f64), numbers::seconds(step.timing.median)]);
        let verdict = if equal { "✓ equal" } else { "✗ not equal" }.to_owned();
        table.push([context.to_string()].into_iter().chain(cells.into_iter().flatten()).chain([verdict]));
    }
    table
}

/// FLOPs of the layer's matrix products, predicted and counted: those of the passage without the head.
fn products(passage: &Passage) -> (u64, u64) {
    let layer = passage.steps.iter().filter_map(|step| match step {
        Step::Operation { weight, flops, predicted: Some(cost), .. } if !weight.starts_with(HEAD) => {
            Some((cost.flops, *flops))
        }
        _ => None,
    });
    layer.fold((0, 0), |(predicted, counted), (cost, flops)| (predicted + cost, counted + flops))
}
