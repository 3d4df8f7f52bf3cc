//! Stops about what runs on the stages: memory, gradients, text.

use super::{MICRO_BATCHES, STAGES, Visit};
use crate::inference::{Server, generate};
use crate::schedule::{Kind, Layout};
use crate::stages::LayerCosts;
use collective::{Options, launch};
use decoder::Context;
use decoder::generation::Options as Generation;
use lab::compared::Unit;
use lab::{Compared, Comparison, Table, numbers};
use ledger::Kind as Memory;

impl Visit<'_> {
    pub(super) fn in_flight(&mut self) -> anyhow::Result<()> {
        self.guide.stop("What is in flight")?;
        let guess = self.guide.question(&format!(
            "Every forward keeps activations until its backward. With GPipe the first stage keeps all {MICRO_BATCHES} micro-batches. How \
             many does it keep with 1F1B?"
        ))?;
        self.guide.prediction(&format!("min(m, p - r), for stage r = 0: {STAGES}."))?;
        let mut comparison = Comparison::default();
        let mut bytes = Vec::new();
        let mut measured = 0;
        for kind in [Kind::Gpipe, Kind::OneForwardOneBackward] {
            let (pipeline, step) = self.step(kind)?;
            for (stage, result) in step.stages.iter().enumerate() {
                let predicted = pipeline.peaks().in_flight[stage] as u64;
                let what = format!("{}, stage {stage}: in flight", kind.name());
                let found = result.outcome.peak_in_flight as u64;
                comparison.push(Compared::exact(what, predicted, Some(found), Unit::Count));
            }
            measured = step.stages[0].outcome.peak_in_flight;
            bytes.push(step.stages[0].memory.as_ref().map(|memory| memory.of(Memory::Activations).peak));
        }
        self.guide.show(&comparison)?;
        let held = match bytes.as_slice() {
            [Some(gpipe), Some(one)] => format!(
                "; activations of stage 0: {} with GPipe, {} with 1F1B",
                ledger::Bytes(*gpipe),
                ledger::Bytes(*one)
            ),
            _ => String::new(),
        };
        self.guide.measured(&format!("{measured}{held}"), &guess, measured as f64, Unit::Count)?;
        self.guide.notice(
            "1F1B's memory does not grow with the number of micro-batches, so the bubble can be made as small as one likes. That is why \
             it is the usual schedule.",
            "cargo ch4 compare --pp 4 --micro-batches 16",
        )?;
        anyhow::ensure!(comparison.all_hold(), "the run is not what was predicted");
        Ok(())
    }

    pub(super) fn exactness(&mut self) -> anyhow::Result<()> {
        self.guide.stop("Exactly one device")?;
        let guess = self
            .guide
            .question("How far are the gradients of 4 stages from those of one device, relative to their norm?")?;
        self.guide.prediction("Only the order of additions differs: about 10^-7 in f32.")?;
        let one = self.one_device()?;
        let mut table = Table::new(["schedule", "loss", "gradient: largest difference"]);
        let mut worst = 0.0f64;
        for kind in [Kind::Gpipe, Kind::OneForwardOneBackward, Kind::ZbH2, Kind::ZbV] {
            let step = self.step(kind)?.1;
            let difference = lab::variant::largest_difference(&step.gradients, &one.gradients)?;
            worst = worst.max(difference);
            table.push([kind.name().to_owned(), format!("{:.6}", step.loss.mean()), format!("{difference:.1e}")]);
        }
        self.guide.show(&table)?;
        let text = format!("{worst:.1e} at most; loss of one device {:.6}", one.loss.mean());
        self.guide.measured(&text, &guess, worst, Unit::Number)?;
        self.guide.notice(
            "Each loss is divided by the count of the whole batch before its backward. Dividing by that of the micro-batch would make the \
             gradients 8 times too large, and Adam would hide it.",
            "cargo ch4 train --pp 4 --micro-batches 8 --steps 20; cargo ch1 train --steps 20",
        )?;
        anyhow::ensure!(worst < 1e-4, "the gradients differ by {worst}");
        Ok(())
    }

    pub(super) fn generation(&mut self) -> anyhow::Result<()> {
        self.guide.stop("One token at a time, through four stages")?;
        let guess = self
            .guide
            .question("One sequence is continued on 4 stages. How many percent of the time does a stage work?")?;
        self.guide.prediction(
            "25: the next token cannot start before the last stage has chosen this one. Four sequences: up to 100.",
        )?;
        let texts = ["the dog", "the cat", "the girl", "the bird"];
        let tokenizer = self.described.tokenizer()?;
        let prompts = texts.iter().map(|text| tokenizer.encode(text, true)).collect::<Result<Vec<_>, _>>()?;
        let options = Generation { max_tokens: 24, ..Generation::default() };
        let stages = self.core.stages(Layout::Straight, STAGES, &LayerCosts::flops(&self.described.config, 1)?)?;
        let mut table = Table::new(["sequences in flight", "stage 0 works in", "of its ticks"]);
        let mut alone = 0.0;
        let mut continued = Vec::new();
        for in_flight in [1, 2, 4] {
            let here = &prompts[..in_flight];
            let served = launch(STAGES, &Options::default(), |rank| {
                let split = stages.split(rank.rank());
                let model = self.described.load(&split)?;
                let context = Context::inference().with_split(split).with_observer(rank.observer());
                let communicator = rank.communicator().as_ref();
                let server = Server { stages: &stages, communicator, model: &model, context: &context };
                generate(&server, here, &options, in_flight, |_, _| Ok(()))
            })?;
            let share = served[0].busy as f64 / served[0].ticks as f64;
            if in_flight == 1 {
                alone = share;
            }
            table.push([
                in_flight.to_string(),
                format!("{} of {}", served[0].busy, served[0].ticks),
                numbers::percent(share),
            ]);
            continued =
                served.into_iter().filter_map(|stage| stage.generated).flat_map(|generated| generated.ids).collect();
        }
        self.guide.show(&table)?;
        self.guide.measured(&numbers::percent(alone), &guess, 100.0 * alone, Unit::Number)?;
        for (text, ids) in texts.iter().zip(&continued) {
            self.guide.line(&format!("{text}{}", tokenizer.decode(ids, true)?))?;
        }
        self.guide.notice(
            "A pipeline does not make one answer faster; it makes room, and serves several at once. Each stage keeps the keys and values of \
             its own layers.",
            "cargo ch4 generate --pp 4 --prompt 'the dog' --prompt 'the cat'; cargo ch4 kv",
        )?;
        Ok(())
    }
}
