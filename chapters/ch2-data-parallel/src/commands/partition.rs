//! `cargo ch2 partition`: one product, divided by rows of X, by columns of W, by rows of W.

pub(super) mod drawn;
pub(super) mod figure;

use crate::core::Core;
use crate::partition::{Block, Cut, Held, Matrix, Outcome, Product, Values, run};
use anyhow::Context as _;
use clap::Args;
use lab::compared::Unit;
use lab::flags::{OutputFlags, WithFlags};
use lab::program::{Output, write_json};
use lab::{Error, Table, ask, numbers};
use ledger::Bytes;
use serde::Serialize;
use std::io::Write;

/// Threads of this process.
const MOST: usize = 256;
/// As many bytes as this many copies of the largest matrix are held per rank at most: itself, its gradient, what is sent, and the difference
/// from the whole product in f64, element by element.
const COPIES: u64 = 14;
/// How far a sum in another order may be from the whole one, as a part of the largest element: f32 rounds at 6e-8.
const TOLERANCE: f64 = 1e-5;
/// More than this many ranks are not drawn each.
const DRAWN: usize = 8;

/// What `cargo ch2 partition` takes.
#[derive(Args, Debug)]
pub(super) struct Partition {
    /// Ranks
    #[arg(long, value_name = "RANKS", default_value_t = 4)]
    ranks: usize,
    /// Rows of X and of Y: one per token
    #[arg(long, value_name = "ROWS", default_value_t = 64)]
    rows: usize,
    /// Columns of X, rows of W
    #[arg(long = "in", value_name = "SIZE", default_value_t = 128)]
    inputs: usize,
    /// Columns of W and of Y
    #[arg(long = "out", value_name = "SIZE", default_value_t = 256)]
    outputs: usize,
    /// Seed of the numbers in the matrices
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    with: WithFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// All three cuts of one product.
#[derive(Serialize)]
pub(super) struct Document {
    ranks: usize,
    rows: usize,
    inputs: usize,
    outputs: usize,
    pub(super) cuts: Vec<CutRow>,
}

/// One way to divide.
#[derive(Serialize)]
pub(super) struct CutRow {
    divided: &'static str,
    method: &'static str,
    /// What the forward needs: `all-gather of Y`.
    pub(super) forward: Option<String>,
    /// What the backward needs.
    pub(super) backward: Option<String>,
    /// Whether every block of Y, dX and dW is, bit by bit, that of the whole product, on dyadic numbers.
    pub(super) equal: bool,
    /// Largest difference on real numbers, as a part of the largest element.
    difference: f64,
    pub(super) ranks: Vec<RankRow>,
    #[serde(skip)]
    pub(super) cut: Option<Cut>,
}

/// One rank.
#[derive(Serialize)]
pub(super) struct RankRow {
    x: String,
    w: String,
    y: String,
    x_bytes: u64,
    w_bytes: u64,
    y_bytes: u64,
    held_as_predicted: bool,
    flops: u64,
    pub(super) predicted_sent: u64,
    pub(super) sent: u64,
    forward_sent: u64,
    backward_sent: u64,
}

impl Partition {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let core = &Core::choose(&self.with)?;
        let plot = self.output.plot()?;
        let product = Product::new(self.rows, self.inputs, self.outputs)?;
        if !(1..=MOST).contains(&self.ranks) {
            let expected = format!("from 1 to {MOST}");
            return Err(Error::Flag { flag: "--ranks", found: self.ranks.to_string(), expected }.into());
        }
        // Every cut leaves one of the three matrices whole on every rank.
        let elements = |matrix| {
            let (rows, columns) = product.shape(matrix);
            rows * columns
        };
        let largest = [Matrix::X, Matrix::W, Matrix::Y].map(elements).into_iter().max().unwrap_or(0) as u64;
        lab::memory::check_machine("--ranks", self.ranks, COPIES * 4 * largest)?;
        let guess = match self.output.predict {
            true => {
                let question = format!(
                    "Data parallelism: rank 0 of {} holds rows of X and all of W. How many bytes of dW does it send in the backward?",
                    self.ranks
                );
                ask::number(&question)?
            }
            false => None,
        };
        let document = Document::of(core, &product, self.ranks, self.seed)?;
        if let Some(path) = plot {
            figure::draw(core, &product, self.ranks)?.write(path).context("drawing the plot")?;
        }
        if self.output.json {
            return write_json(out, &document);
        }
        document.write(out)?;
        let sent = document.cuts.first().and_then(|cut| cut.ranks.first()).map(|rank| rank.sent);
        if let (Some(guess), Some(sent)) = (guess, sent) {
            writeln!(out, "\n{}", ask::beside(guess, sent as f64, Unit::Bytes))?;
        }
        if let Some(path) = plot {
            writeln!(out, "\nfigure: {}", path.display())?;
        }
        Ok(())
    }
}

impl Document {
    pub(super) fn of(core: &Core, product: &Product, ranks: usize, seed: u64) -> anyhow::Result<Self> {
        let ((rows, inputs), (_, outputs)) = (product.shape(Matrix::X), product.shape(Matrix::W));
        let cut = |cut| {
            let exact = run(core, product, cut, ranks, Values::Dyadic(seed))?;
            let real = run(core, product, cut, ranks, Values::Real(seed))?;
            Ok::<_, crate::Error>(CutRow::of(&exact, &real))
        };
        let cuts = Cut::ALL.into_iter().map(cut).collect::<crate::Result<_>>().context("a divided product")?;
        Ok(Self { ranks, rows, inputs, outputs, cuts })
    }

    fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        let Self { ranks, rows, inputs, outputs, cuts } = self;
        writeln!(
            out,
            "X [{rows}, {inputs}] · W [{inputs}, {outputs}] = Y [{rows}, {outputs}] on {ranks} {}, f32",
            if *ranks == 1 { "rank" } else { "ranks" }
        )?;
        for row in cuts {
            let Some(cut) = row.cut else { continue };
            writeln!(out, "\n{}: {}\n\n{}\n", cut.name(), cut.method(), drawn::boxes(cut, *ranks))?;
            writeln!(out, "{}", row.table())?;
            let needs = [("forward", &row.forward), ("backward", &row.backward)];
            for (pass, need) in needs {
                writeln!(out, "{pass:>9}: {}", need.as_deref().unwrap_or("nothing to send"))?;
            }
        }
        writeln!(out, "\nY, dX and dW of every rank beside the whole product's:\n\n{}\n", self.verdicts())?;
        let balance = cuts.iter().map(|cut| {
            let flops = || cut.ranks.iter().map(|rank| rank.flops);
            let mean = flops().sum::<u64>() as f64 / *ranks as f64;
            format!("{} {}", cut.divided, numbers::percent(mean / flops().max().unwrap_or(0) as f64))
        });
        writeln!(
            out,
            "balance (mean work of a rank over the most of one): {}",
            balance.collect::<Vec<_>>().join(", ")
        )?;
        writeln!(
            out,
            "What is summed over and divided is only a summand on each rank: Y = X·W sums over `in`, dX = dY·Wᵀ over `out`, dW = Xᵀ·dY\n\
             over the rows. Data parallelism divides the rows, so its forward sends nothing, and its backward sums dW: the gradient."
        )?;
        Ok(())
    }

    /// Each cut beside the whole product, and what was sent beside the formula.
    pub(super) fn verdicts(&self) -> Table {
        let header = ["divided", "dyadic numbers", "real numbers", "must send", "sent"];
        let mut table = Table::new(header);
        for cut in &self.cuts {
            let most = |of: fn(&RankRow) -> u64| cut.ranks.iter().map(of).max().unwrap_or(0);
            let all = cut.ranks.iter().all(|rank| rank.sent == rank.predicted_sent);
            let mark = |good: bool| if good { "✓" } else { "✗" };
            table.push([
                cut.divided.to_owned(),
                if cut.equal { "✓ equal, bit by bit".to_owned() } else { "✗ not equal".to_owned() },
                format!("{} {:.1e} of the largest", mark(cut.difference <= TOLERANCE), cut.difference),
                format!("{} B", numbers::grouped(most(|rank| rank.predicted_sent))),
                format!(
                    "{} B {}",
                    numbers::grouped(most(|rank| rank.sent)),
                    if all { "✓ equal" } else { "✗ not equal" }
                ),
            ]);
        }
        table
    }

    /// Whether every block, every byte held and every byte sent is as predicted.
    pub(super) fn holds(&self) -> bool {
        let rank = |rank: &RankRow| rank.held_as_predicted && rank.sent == rank.predicted_sent;
        self.cuts.iter().all(|cut| cut.equal && cut.difference <= TOLERANCE && cut.ranks.iter().all(rank))
    }
}

impl CutRow {
    fn of(exact: &Outcome, real: &Outcome) -> Self {
        let cut = exact.cut;
        let needs = exact.ranks.first().map(|rank| rank.predicted).unwrap_or_default();
        let text =
            |need: Option<crate::partition::Need>| need.map(|need| format!("{} of {}", need.operation, need.matrix));
        Self {
            divided: cut.name(),
            method: cut.method(),
            forward: text(needs.forward),
            backward: text(needs.backward),
            equal: exact.largest_difference() == 0.0,
            difference: real.largest_difference() / real.largest_element,
            ranks: exact.ranks.iter().map(RankRow::of).collect(),
            cut: Some(cut),
        }
    }

    /// Who holds what, and who sends what.
    fn table(&self) -> Table {
        let mut table = Table::new(["rank", "X", "W", "Y", "bytes held", "FLOP", "must send", "sent"]);
        let shown = |rank: &usize| *rank < DRAWN || *rank + 1 == self.ranks.len();
        for rank in (0..self.ranks.len()).filter(shown) {
            let row = &self.ranks[rank];
            let held = row.x_bytes + row.w_bytes + row.y_bytes;
            let sent = if row.sent == row.predicted_sent { "✓" } else { "✗" };
            table.push([
                if rank >= DRAWN { format!("… {rank}") } else { rank.to_string() },
                row.x.clone(),
                row.w.clone(),
                row.y.clone(),
                format!("{} {}", Bytes(held), if row.held_as_predicted { "✓" } else { "✗" }),
                numbers::flops(row.flops as f64),
                format!("{} B", numbers::grouped(row.predicted_sent)),
                format!("{} B {sent}", numbers::grouped(row.sent)),
            ]);
        }
        table
    }
}

impl RankRow {
    fn of(rank: &crate::partition::RankOutcome) -> Self {
        let Held { x, w, y } = &rank.held;
        let shape = |block: &Block| format!("[{}, {}]", block.rows.len(), block.columns.len());
        let predicted = rank.predicted.forward_volume.sent + rank.predicted.backward_volume.sent;
        Self {
            x: shape(x),
            w: shape(w),
            y: shape(y),
            x_bytes: rank.bytes[0],
            w_bytes: rank.bytes[1],
            y_bytes: rank.bytes[2],
            held_as_predicted: rank.bytes == [x, w, y].map(Block::bytes),
            flops: rank.held.forward_flops(),
            predicted_sent: predicted.total(),
            sent: (rank.forward + rank.backward).total(),
            forward_sent: rank.forward.total(),
            backward_sent: rank.backward.total(),
        }
    }
}
