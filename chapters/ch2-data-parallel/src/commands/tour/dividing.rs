//! Stops 1 to 4: what is divided, and how it becomes whole again.

use super::replicas::{BATCH, STEPS, Trained, apart, mean_of_means, rank_losses, replica_gradients, trained};
use super::{Visit, bundled};
use crate::commands::DEFAULT_TEXTS;
use crate::commands::partition::{Document, drawn, figure};
use crate::partition::{Cut, Product};
use crate::traffic::{Volume, parameter_sizes, synchronisation};
use anyhow::Context as _;
use candle_core::DType;
use collective::volume::Place;
use collective::{Algorithm, Options, launch};
use decoder::split::Split;
use lab::batch::Batch;
use lab::compared::Unit;
use lab::{Compared, Comparison, Table, numbers};
use training::Named;

const RANKS: usize = 4;
/// Rows of X, columns of X, columns of Y.
const SIZES: (usize, usize, usize) = (64, 128, 256);
impl Visit<'_> {
    pub(super) fn one_product(&mut self) -> anyhow::Result<()> {
        let (rows, inputs, outputs) = SIZES;
        let product = Product::new(rows, inputs, outputs)?;
        let guide = &mut self.guide;
        guide.stop("X · W = Y, divided")?;
        let guess = guide.question(&format!(
            "X [{rows}, {inputs}] is cut into the rows of {RANKS} ranks, W [{inputs}, {outputs}] is on every rank. Which bytes does \
             a rank send to get its rows of Y, and which to get the gradient dW? How many are it together?"
        ))?;
        let place = Place::flat(0, RANKS);
        let needs = Cut::XByRows.communication(&product, Algorithm::Ring, &place);
        let sent = (needs.forward_volume.sent + needs.backward_volume.sent).total();
        guide.prediction(&format!(
            "None for Y: a row of Y needs one row of X only. dW = Xᵀ · dY sums over rows, so each rank has a summand of all of dW: \
             an all-reduce of S = {} bytes, of which a rank sends 2S · 3/4 = {} around the ring.",
            numbers::grouped((inputs * outputs * 4) as u64),
            numbers::grouped(sent)
        ))?;
        let document = Document::of(self.core, &product, RANKS, 1)?;
        guide.show(&drawn::boxes(Cut::XByRows, RANKS))?;
        guide.show(&document.verdicts())?;
        let counted = document.cuts.first().and_then(|cut| cut.ranks.first()).map_or(0, |rank| rank.sent);
        let verdict = if document.holds() { "equal to the formula" } else { "not as the formula says" };
        guide.measured(
            &format!("{} bytes, {verdict}; and every cut gives the whole product.", numbers::grouped(counted)),
            &guess,
            counted as f64,
            Unit::Bytes,
        )?;
        guide.notice(
            "What is summed over and cut is only a summand on each rank, and must be added up; every other cut leaves finished \
             numbers. X by rows is data parallelism, and its dW is the gradient. W by columns or rows is chapter 3.",
            "cargo ch2 partition",
        )?;
        figure::draw(self.core, &product, RANKS)?.write(&self.figure("partition.svg"))?;
        Ok(())
    }

    pub(super) fn rows_of_a_batch(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F64)?;
        let tokenizer = described.tokenizer()?;
        let ids = DEFAULT_TEXTS.iter().map(|text| tokenizer.encode(text, true)).collect::<Result<_, _>>()?;
        let batch = Batch::new("--prompt", ids, &described.config)?;
        let ranks = rank_losses(self.core, &described, &batch)?;
        let mean = |(sum, count): (f64, usize)| sum / count as f64;
        let of_means = ranks.iter().copied().map(mean).sum::<f64>() / ranks.len() as f64;
        let total = ranks.iter().fold((0.0, 0), |total, rank| (total.0 + rank.0, total.1 + rank.1));

        let guide = &mut self.guide;
        guide.stop("The rows of a batch: sums, not means of means")?;
        let counts: Vec<String> =
            ranks.iter().map(|rank| format!("a loss of {:.4} over {} targets", mean(*rank), rank.1)).collect();
        let guess = guide.question(&format!(
            "Two ranks have two sequences each, of unequal length: one {}, the other {}. What is the loss of the batch?",
            counts.first().map_or("", |text| text),
            counts.last().map_or("", |text| text)
        ))?;
        guide.prediction(&format!(
            "{:.4}: the sums are added, the counts are added, and divided once. The mean of the two means, {of_means:.4}, would \
             count the targets of the shorter sequences more.",
            mean(total)
        ))?;
        let one = launch(1, &Options::default(), |rank| replica_gradients(self.core, &described, &batch, rank))?;
        let two = launch(2, &Options::default(), |rank| replica_gradients(self.core, &described, &batch, rank))?;
        let ((one_loss, one), (two_loss, two)) = one.into_iter().next().zip(two.into_iter().next()).context("ranks")?;
        let mut table = Table::new(["rank", "sum of -log p", "targets", "mean"]);
        for (rank, losses) in ranks.iter().enumerate() {
            let cells = [format!("{:.4}", losses.0), losses.1.to_string(), format!("{:.4}", mean(*losses))];
            table.push([rank.to_string()].into_iter().chain(cells));
        }
        table.push(["both".to_owned(), format!("{:.4}", total.0), total.1.to_string(), format!("{:.4}", mean(total))]);
        let wrong = apart(&mean_of_means(&described, &batch)?, &one)?;
        table.push(["one device".to_owned(), String::new(), String::new(), format!("{one_loss:.4}")]);
        guide.show(&table)?;
        guide.measured(
            &format!(
                "{two_loss:.4}. The gradients of two ranks differ from one device's by {:.0e} of their norm; the mean of two mean \
                 gradients by {}.",
                apart(&two, &one)?,
                numbers::percent(wrong)
            ),
            &guess,
            two_loss,
            Unit::Number,
        )?;
        guide.notice(
            "The error of a mean of means is silent: the loss still falls. Reduce sums and counts, and unequal parts, padding and \
             masks are right by construction.",
            "cargo ch2 gradients --dp 2; cargo ch2 score --dp 2",
        )?;
        Ok(())
    }

    pub(super) fn a_training_run(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F64)?;
        let (batch, _) = BATCH;
        let guide = &mut self.guide;
        guide.stop("A training run on four ranks is that of one device")?;
        let guess = guide.question(&format!(
            "{STEPS} steps of AdamW with clipping, from random weights, in f64, on a batch of {batch} sequences: one device, and \
             {RANKS} ranks with 2, 2, 1 and 1 of them. How far apart are the losses of the last step?"
        ))?;
        guide.prediction(
            "About 1e-15 of the loss: both add the same numbers, in another order, and f64 rounds at 1e-16. Nothing else may differ.",
        )?;
        let runs = [1, RANKS].map(|dp| trained(self.core, &described, dp));
        let [one, four] = runs;
        let (one, four) = (one?, four?);
        let mut table = Table::new(["step", "one device", "four ranks", "apart"]);
        for (step, (a, b)) in one.losses.iter().zip(&four.losses).enumerate() {
            table.push([step.to_string(), format!("{a:.12}"), format!("{b:.12}"), format!("{:.0e}", (a - b).abs())]);
        }
        guide.show(&table)?;
        let last = |run: &Trained| run.losses.last().copied().unwrap_or(f64::NAN);
        let difference = (last(&one) - last(&four)).abs();
        let weights = apart(&four.weights, &one.weights)?;
        guide.measured(
            &format!("{difference:.0e}; the weights after the last step differ by {weights:.0e} of their norm."),
            &guess,
            difference,
            Unit::Number,
        )?;
        guide.notice(
            "Four replicas start from the same weights, add the same gradient, and take the same step. They compare a checksum of \
             every weight on the way: a replica that differs in one bit would go its own way, and its loss would fall all the same.",
            "cargo ch2 train --dp 4 --steps 50 --batch 4 --seq 64 --dtype f64",
        )?;
        Ok(())
    }

    pub(super) fn bytes(&mut self) -> anyhow::Result<()> {
        let described = bundled(DType::F32)?;
        let batch = crate::scaling::made_up(&described, RANKS, 16)?;
        let measured = crate::scaling::measure(self.core, &described, &batch, RANKS, &Options::default())?;
        let model = described.load(&Split::whole())?;
        let parameters: Named =
            model.parameters().into_iter().map(|(one, _)| (one.name().clone(), one.value().clone())).collect();
        let sizes = parameter_sizes(&parameters, DType::F32);
        let bytes: usize = sizes.iter().map(|(elements, width)| elements * width).sum();
        let guide = &mut self.guide;
        guide.stop("The bytes of a step")?;
        let guess = guide.question(&format!(
            "The gradients are S = {} bytes in {} parameters. How many bytes does each of {RANKS} ranks send per step?",
            numbers::grouped(bytes as u64),
            sizes.len()
        ))?;
        let place = |rank| Place::flat(rank, RANKS);
        let predicted: Vec<Volume> =
            (0..RANKS).map(|rank| synchronisation(Algorithm::Ring, &place(rank), &sizes)).collect();
        let first = predicted.first().map_or(0, |volume| volume.sent.total());
        guide.prediction(&format!(
            "{} by rank 0: a ring sends every chunk but one on its way to the sum, and every chunk but one of the sum: 2S · (p - 1)/p, \
             and the loss's sum and count. (The loss is two numbers, too few for four chunks, so some ranks send 8 or 16 bytes more.)",
            numbers::grouped(first)
        ))?;
        let mut comparison = Comparison::default();
        for (rank, (volume, (_, counted))) in predicted.iter().zip(&measured.traffic).enumerate() {
            let exact = |what, predicted, counted, unit| {
                Compared::exact(format!("rank {rank}: {what}"), predicted, Some(counted), unit)
            };
            comparison.push(exact("bytes", volume.sent.total(), counted.sent.total(), Unit::Bytes));
            comparison.push(exact("calls", volume.calls, counted.calls, Unit::Count));
        }
        guide.show(&comparison)?;
        let sent = measured.traffic.first().map_or(0, |(_, counted)| counted.sent.total());
        guide.measured(
            &format!("{} bytes by rank 0, counted where they are sent.", numbers::grouped(sent)),
            &guess,
            sent as f64,
            Unit::Bytes,
        )?;
        guide.notice(
            "With p ranks it is 2S · (p - 1)/p: never more than twice the gradients, however many ranks there are. That is what makes \
             data parallelism simple and regular, and it is once per step, not once per micro-batch.",
            "cargo ch2 train --dp 4",
        )?;
        Ok(())
    }
}
