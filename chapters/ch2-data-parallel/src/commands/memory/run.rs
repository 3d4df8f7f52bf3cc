//! A model that is loaded: two steps of AdamW on one global batch, on 1, 2, 4, … real ranks.

use crate::core::Core;
use crate::memory::{Attempt, Job, floor};
use anyhow::Context as _;
use ch1_single_gpu::memory::{TOLERANCE, Work, within};
use ch1_single_gpu::wall::Subject;
use collective::Options;
use lab::program::Output;
use lab::progress::Progress;
use lab::table::NOT_MEASURED;
use lab::{Comparison, Error, Table};
use ledger::{Bytes, Snapshot};
use serde::Serialize;
use std::io::Write;

/// More than this is not run.
const MOST: u64 = 8 << 30;

/// All runs of a model.
#[derive(Serialize)]
pub(in crate::commands) struct Runs {
    pub(in crate::commands) model: String,
    dtype: String,
    batch: usize,
    seq: usize,
    device_memory: Option<u64>,
    /// Weights, gradients and optimiser: on every rank, whatever the number of ranks.
    pub(in crate::commands) floor: u64,
    pub(in crate::commands) rows: Vec<Row>,
}

/// One number of ranks. What is measured is rank 0's: no rank has more rows.
#[derive(Serialize)]
pub(in crate::commands) struct Row {
    pub(in crate::commands) dp: usize,
    /// Sequences of rank 0.
    rows_of_rank: usize,
    pub(in crate::commands) kinds: Vec<KindBytes>,
    pub(in crate::commands) device: KindBytes,
    pub(in crate::commands) fits: bool,
    /// The out-of-memory error, where it does not fit.
    pub(in crate::commands) message: Option<String>,
}

/// Bytes of one kind: the largest at any time.
#[derive(Clone, Serialize)]
pub(in crate::commands) struct KindBytes {
    pub(in crate::commands) kind: &'static str,
    pub(in crate::commands) predicted: u64,
    /// `None` where it was not measured.
    pub(in crate::commands) peak: Option<u64>,
}

impl KindBytes {
    fn holds(&self) -> Option<bool> {
        within(self.kind, self.predicted, self.peak).holds()
    }

    fn cell(&self) -> String {
        match (self.peak, self.holds()) {
            (Some(peak), Some(holds)) => format!("{:.2} {}", Bytes(peak).mebibytes(), if holds { "✓" } else { "✗" }),
            _ => NOT_MEASURED.to_owned(),
        }
    }
}

/// One global batch, and the numbers of ranks that it is divided over.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Load<'a> {
    pub(in crate::commands) dp: &'a [usize],
    /// Sequences.
    pub(in crate::commands) batch: usize,
    /// Tokens of each.
    pub(in crate::commands) seq: usize,
    /// The size of every rank's device.
    pub(in crate::commands) device_memory: Option<u64>,
}

impl Runs {
    /// Every number of ranks.
    pub(in crate::commands) fn of(
        core: &Core,
        (subject, name): (&Subject, &str),
        load: Load<'_>,
    ) -> anyhow::Result<Self> {
        let Load { dp, batch, seq, device_memory } = load;
        let described = &subject.described;
        if !described.device.is_cpu() {
            let expected = "cpu: the bytes of each rank are counted there".to_owned();
            return Err(Error::Flag { flag: "--device", found: "a GPU".to_owned(), expected }.into());
        }
        if !(1..=described.config.context).contains(&seq) {
            let expected = format!("from 1 to the model's context, {}", described.config.context);
            return Err(Error::Flag { flag: "--seq", found: seq.to_string(), expected }.into());
        }
        let formula = Work::Training { batch: 1, seq }.predicted(&described.config, described.dtype)?;
        let progress = Progress::bar("training", dp.len() as u64);
        let options = Options { device_memory, ..Options::default() };
        let mut rows = Vec::new();
        for &dp in dp {
            progress.say(format!("{dp} ranks"));
            let row = Row::of(core, subject, Job { batch, seq, dp }, &options);
            rows.push(row.with_context(|| format!("training on {dp} ranks"))?);
            progress.advance(1);
        }
        Ok(Self {
            model: name.to_owned(),
            dtype: described.dtype.as_str().to_owned(),
            batch,
            seq,
            device_memory,
            floor: floor(&formula.kinds),
            rows,
        })
    }
}

impl Row {
    fn of(core: &Core, subject: &Subject, job: Job, options: &Options) -> anyhow::Result<Self> {
        let dp = job.dp;
        // By formula first: the prediction itself measures one layer.
        let formula = job.of_rank(core, 0).predicted(&subject.described.config, subject.described.dtype)?.device;
        if formula.saturating_mul(dp as u64) > MOST {
            let found = format!("{dp}, with {} on each rank", Bytes(formula));
            let expected = "at most 8 GiB are run in all".to_owned();
            return Err(Error::Flag { flag: "--dp", found, expected }.into());
        }
        let predicted = job.predicted(core, subject)?;
        let (held, message) = match job.attempt(core, subject, options)? {
            Attempt::Fits(held) => (held.into_iter().next().flatten(), None),
            Attempt::OutOfMemory { message, .. } => (None, Some(message)),
        };
        let bytes =
            |kind, predicted, of: &dyn Fn(&Snapshot) -> u64| KindBytes { kind, predicted, peak: held.as_ref().map(of) };
        let kinds =
            predicted.kinds.iter().map(|&(kind, bytes_of)| bytes(kind.name(), bytes_of, &|held| held.of(kind).peak));
        Ok(Self {
            dp,
            rows_of_rank: (core.rows_of_rank)(job.batch, dp, 0).len(),
            kinds: kinds.collect(),
            device: bytes("device", predicted.device, &|held| held.device().peak),
            fits: message.is_none(),
            message,
        })
    }
}

impl Runs {
    /// The last row, if none fits.
    pub(in crate::commands) fn none_fits(&self) -> Option<&Row> {
        self.rows.iter().all(|row| !row.fits).then(|| self.rows.last()).flatten()
    }

    pub(in crate::commands) fn write(&self, out: &mut Output) -> anyhow::Result<()> {
        let Self { model, dtype, batch, seq, .. } = self;
        writeln!(
            out,
            "{model}, {dtype}: training with AdamW on one global batch of {batch} x {seq} tokens; held by a rank at most, in MiB\n"
        )?;
        writeln!(out, "{}\n", self.table())?;
        writeln!(out, "{}\n", self.devices())?;
        writeln!(
            out,
            "✓: within {} of chapter 1's formula for the rank's rows. Weights, gradients and moments are whole on every rank: {} that no\n\
             number of ranks makes less. Only the activations shrink.",
            lab::numbers::percent(TOLERANCE),
            Bytes(self.floor)
        )?;
        if let (Some(limit), Some(row)) = (self.device_memory, self.rows.iter().find(|row| !row.fits)) {
            writeln!(
                out,
                "\na device of {}, {} {}:\n",
                Bytes(limit),
                row.dp,
                if row.dp == 1 { "rank" } else { "ranks" }
            )?;
            for line in row.message.iter().flat_map(|message| message.lines()) {
                writeln!(out, "  | {line}")?;
            }
        }
        Ok(())
    }

    pub(in crate::commands) fn table(&self) -> Table {
        let mut table = Table::new(["kind".to_owned()].into_iter().chain(self.rows.iter().map(|row| {
            format!("dp {}, {} {}", row.dp, row.rows_of_rank, if row.rows_of_rank == 1 { "row" } else { "rows" })
        })));
        let kinds = self.rows.first().map_or(0, |row| row.kinds.len());
        for index in 0..kinds {
            let name = self.rows[0].kinds[index].kind.to_owned();
            let cell = |row: &Row| match row.kinds.get(index) {
                Some(kind) if row.fits => kind.cell(),
                _ => "out of memory".to_owned(),
            };
            table.push([name].into_iter().chain(self.rows.iter().map(cell)));
        }
        table
    }

    /// All kinds at once, at their peak.
    fn devices(&self) -> Comparison {
        let device = |comparison: Comparison, row: &Row| {
            let what = format!("device of a rank, dp {}", row.dp);
            comparison.with(within(&what, row.device.predicted, row.device.peak))
        };
        self.rows.iter().fold(Comparison::default(), device)
    }
}
