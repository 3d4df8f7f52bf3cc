//! Stops 1 to 3: a layer is cut, and computes what it computed.

use super::{Visit, bundled};
use crate::anatomy;
use crate::commands::split;
use crate::core::Core;
use crate::{Error, TensorParallel};
use anyhow::Context as _;
use candle_core::DType;
use collective::{Options, launch};
use decoder::generation::Options as Generation;
use lab::Table;
use lab::batch::Batch;
use lab::compared::Unit;
use lab::variant::largest_difference;
use ledger::{Bytes, Kind};
use training::Named;

const TEXT: &str = "the dog";

impl Visit<'_> {
    pub(super) fn one_block(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F32)?;
        let (ffn, hidden) = (described.config.ffn, described.config.hidden);
        let guide = &mut self.guide;
        guide.stop("One feed-forward network, cut")?;
        let guess = guide.question(&format!(
            "down(act(gate(x)) · up(x)), {hidden} → {ffn} → {hidden}, on two ranks: one has columns 0 to {} of the width, the other the rest. \
             How often must they talk to each other to have the result?",
            ffn / 2 - 1
        ))?;
        guide.prediction(
            "Once. A column of the width needs x and nothing of any other column. The last product sums over the width, so each rank has a \
             summand of every number of the result: one all-reduce.",
        )?;
        let ids = described.tokenizer()?.encode(TEXT, true)?;
        let reduced = anatomy::reduce(self.core, &described, 2, &ids)?;
        let block = reduced.last().context("a layer has a feed-forward network")?;
        guide.show(&split::numbers(block))?;
        let off = block.sum.iter().zip(&block.single).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        guide.measured(
            &format!("One reduction; its result is one device's, within {off:.0e}. Either summand alone is none of its numbers."),
            &guess,
            1.0,
            Unit::Count,
        )?;
        Ok(guide.notice(
            "Columns first, rows second. The other way round the first product would leave summands, the activation of a sum is not the sum of \
             activations, and a second reduction would be needed. Attention is cut the same way, by heads.",
            "cargo ch3 split --tp 4",
        )?)
    }

    pub(super) fn text(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F32)?;
        let tokenizer = described.tokenizer()?;
        let prompt = tokenizer.encode(TEXT, true)?;
        let whole = 4 * described.config.parameters();
        let guide = &mut self.guide;
        guide.stop("The same text from 1, 2, 4 and 8 ranks")?;
        let guess = guide
            .question(&format!("The model has {} of weights. How many MiB does each of 4 ranks hold?", Bytes(whole)))?;
        guide.prediction(
            "A quarter, and the norms, which every rank has whole. With 8 ranks there are more ranks than key heads (4): two ranks share one, \
             and the weights of keys and values do not shrink further.",
        )?;
        let mut table = Table::new(["tp", "heads", "key heads", "weights", "text"]);
        let (mut texts, mut of_four) = (Vec::new(), 0.0);
        for tp in [1, 2, 4, 8] {
            let ranks = launch(tp, &Options::default(), |rank| {
                let tensor = TensorParallel::new(self.core, &described.config, rank.communicator())?;
                let model = described.load(&tensor.split())?;
                let held = rank.ledger().snapshot().map(|held| held.of(Kind::Weights).current);
                let options = Generation { max_tokens: 10, ..Generation::default() };
                let ids = tensor.generate(&model, rank.observer(), std::slice::from_ref(&prompt), &options)?.ids;
                let (heads, kv_heads) = (tensor.layout().heads(), tensor.layout().kv_heads());
                Ok::<_, Error>((ids.concat(), heads, kv_heads, held))
            })?;
            let (ids, heads, kv_heads, held) = ranks.into_iter().next().context("at least one rank")?;
            let text = format!("{TEXT}{}", tokenizer.decode(&ids, true)?);
            let bytes = held.map_or_else(|| lab::table::NOT_MEASURED.to_owned(), |held| Bytes(held).to_string());
            table.push([tp.to_string(), heads.to_string(), kv_heads.to_string(), bytes, text.clone()]);
            texts.push(text);
            if tp == 4 {
                of_four = held.map_or(0.0, |held| Bytes(held).mebibytes());
            }
        }
        guide.show(&table)?;
        let same = if texts.windows(2).all(|pair| pair[0] == pair[1]) { "The same text" } else { "Another text" };
        guide.measured(&format!("{same}; {of_four:.2} MiB on each of 4 ranks."), &guess, of_four, Unit::Number)?;
        Ok(guide.notice(
            "Every rank computes every token, with its part of each layer. All have the same logits to the last bit and the same random numbers, so \
             all choose the same token: nobody has to say which.",
            "cargo ch3 generate --tp 4 --prompt \"the dog\"",
        )?)
    }

    pub(super) fn gradients(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F64)?;
        let tokenizer = described.tokenizer()?;
        let texts = ["the dog ran home", "the cat sat on the mat."];
        let rows = texts.iter().map(|text| tokenizer.encode(text, true)).collect::<Result<Vec<_>, _>>()?;
        let batch = Batch::new("--ids", rows, &described.config)?;
        let guide = &mut self.guide;
        guide.stop("Gradients: exact, or quietly wrong")?;
        let guess = guide.question(
            "Two ranks each have a whole copy of a norm's weight, and both use it on the same tokens. By which factor is its gradient wrong if the \
             two copies' gradients are summed, as data parallelism would?",
        )?;
        guide.prediction(
            "By 2, the number of ranks: both have the whole gradient already. With sequence parallelism each saw half of the tokens, and then it is \
             the missing sum that is wrong. Nothing crashes either way.",
        )?;
        let run = |core: Core, tp: usize| -> anyhow::Result<Named> {
            let ranks = launch(tp, &Options::default(), |rank| {
                let tensor = TensorParallel::new(core, &described.config, rank.communicator())?;
                let model = described.load(&tensor.training_split())?;
                tensor.gradients(&model, rank.observer(), &batch)
            })?;
            Ok(ranks.into_iter().next().context("at least one rank")?.1)
        };
        let (single, right) = (run(self.core, 1)?, run(self.core, 2)?);
        let bug = lab::flags::WithFlags { with: lab::exercises::With::Bug("sum-norms-always".to_owned()) };
        let wrong = run(Core::choose(&bug)?, 2)?;
        let (exact, off) = (largest_difference(&right, &single)?, largest_difference(&wrong, &single)?);
        guide.measured(
            &format!(
                "As they should be, no gradient differs from one device's by more than {exact:.0e} of its norm. With that sum the worst differs by \
                 {off:.2}: it is {:.2} times what it should be.",
                1.0 + off
            ),
            &guess,
            1.0 + off,
            Unit::Number,
        )?;
        Ok(guide.notice(
            "What several ranks hold is summed if they used it on different data, and only then: norms under sequence parallelism, norms of q and k, \
             shared key heads, biases behind a reduction.",
            "cargo ch3 gradients --tp 4 --dtype f64",
        )?)
    }
}
