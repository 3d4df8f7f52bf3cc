//! Why data parallelism does not help a model that does not fit: what each rank holds, on real ranks and by formula.
//!
//! A rank holds the whole model, all its gradients and the whole state of the optimiser, whatever the number of ranks. Only the activations
//! shrink, with its rows of the batch. What one rank holds is what chapter 1's device holds for these rows ([`Work`]), and so is the
//! prediction; what is new is the buffer that a ring all-reduce passes around.

use crate::core::Core;
use crate::{Error, Result};
use ch1_single_gpu::memory::{Predicted, Work, training_run};
use ch1_single_gpu::wall::{Subject, probe_workspace};
use collective::{Failure, Options, Rank, launch};
use decoder::Context;
use decoder::shape::{Footprint, ModelShape};
use ledger::{Kind, Snapshot};

/// Two steps of AdamW on one global batch, by some ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Sequences of the global batch.
    pub batch: usize,
    /// Tokens of each.
    pub seq: usize,
    /// Ranks.
    pub dp: usize,
}

/// How it ended.
#[derive(Debug)]
pub enum Attempt {
    /// What each rank held.
    Fits(Vec<Option<Snapshot>>),
    /// A rank held more than its device has.
    OutOfMemory {
        /// The first.
        rank: usize,
        /// The ledger's message.
        message: String,
    },
}

impl Job {
    /// The work of one rank, in the terms of chapter 1: its rows, as if they were the batch.
    pub fn of_rank(&self, core: &Core, rank: usize) -> Work {
        Work::Training { batch: (core.rows_of_rank)(self.batch, self.dp, rank).len(), seq: self.seq }
    }

    /// What rank 0, which has the most rows, holds: chapter 1's formula, with the scratch memory that is measured on one layer.
    ///
    /// # Errors
    /// The sizes have no meaning, or the layer cannot be run.
    pub fn predicted(&self, core: &Core, subject: &Subject) -> Result<Predicted> {
        let work = self.of_rank(core, 0);
        let formula = work.predicted(&subject.described.config, subject.described.dtype)?;
        Ok(formula.with_workspace(probe_workspace(subject, work)?))
    }

    /// Does it, each rank on a device of `options.device_memory` bytes.
    ///
    /// # Errors
    /// A rank failed for another reason than memory.
    pub fn attempt(&self, core: &Core, subject: &Subject, options: &Options) -> collective::Result<Attempt> {
        match launch(self.dp, options, |rank| self.train(core, subject, rank)) {
            Ok(held) => Ok(Attempt::Fits(held)),
            Err(error) => match out_of_memory(&error) {
                Some((rank, message)) => Ok(Attempt::OutOfMemory { rank, message }),
                None => Err(error),
            },
        }
    }

    fn train(&self, core: &Core, subject: &Subject, rank: &Rank) -> Result<Option<Snapshot>> {
        let ctx = Context::inference().with_observer(rank.observer());
        let mut run = training_run(&subject.described, subject.random, self.batch, self.seq, ctx)?;
        let rows = (core.rows_of_rank)(self.batch, rank.size(), rank.rank());
        let group = rank.communicator().as_ref();
        while !run.is_done() {
            run.step_with(rows.clone(), |loss, gradients| (core.synchronise)(group, loss, gradients))?;
            // The optimiser is not an observed operation, but its state may be what no longer fits.
            rank.ledger().check().map_err(lab::Error::from)?;
        }
        Ok(rank.ledger().snapshot())
    }
}

/// The rank that ran out of memory, and what its ledger said.
fn out_of_memory(error: &collective::Error) -> Option<(usize, String)> {
    let collective::Error::Failed(failure) = error else { return None };
    let Failure::Error { rank, cause } = &**failure else { return None };
    let ledger = match cause.downcast_ref::<Error>()? {
        Error::Decoder(error) => of_decoder(error)?,
        Error::Lab(error) => match &**error {
            lab::Error::Ledger(error) => error,
            lab::Error::Decoder(error) => of_decoder(error)?,
            _ => return None,
        },
        Error::Training(error) => match &**error {
            training::Error::Ledger(error) => error,
            training::Error::Decoder(error) => of_decoder(error)?,
            _ => return None,
        },
        _ => return None,
    };
    matches!(ledger, ledger::Error::OutOfMemory { .. }).then(|| (*rank, ledger.to_string()))
}

fn of_decoder(error: &decoder::Error) -> Option<&ledger::Error> {
    match error {
        decoder::Error::Ledger(error) => Some(error),
        _ => None,
    }
}

/// Bytes of the kinds that no number of ranks makes smaller.
pub fn floor(kinds: &[(Kind, u64)]) -> u64 {
    let fixed = [Kind::Weights, Kind::Gradients, Kind::Optimiser];
    kinds.iter().filter(|(kind, _)| fixed.contains(kind)).map(|(_, bytes)| bytes).sum()
}

/// Replicas that serve users: each holds the whole model, and the keys and values of its own users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replicas {
    /// How many.
    pub replicas: u64,
    /// Users of the replica that has most.
    pub users: u64,
    /// What such a replica holds.
    pub held: Footprint,
    /// Devices of a replica at least, as if its bytes could be divided evenly.
    pub devices: u64,
    /// Seconds of a decode step of a replica at least: its bytes, read once by its devices side by side.
    pub step: f64,
}

impl Replicas {
    /// `users` users with `context` tokens each, in 16 bits, on `replicas` replicas; each on as few devices as hold it, or on `devices`.
    ///
    /// # Errors
    /// A size of 0.
    pub fn of(
        shape: &ModelShape,
        (users, context): (u64, u64),
        replicas: u64,
        gpu: &decoder::shape::Hardware,
        devices: Option<u64>,
    ) -> decoder::Result<Self> {
        let most = users.div_ceil(replicas.max(1));
        let held = shape.inference_footprint(context, most, candle_core::DType::BF16)?;
        let devices = devices.map_or_else(|| held.devices_needed(gpu), Ok)?;
        let step = held.total()? as f64 / (devices as f64 * gpu.bandwidth.get() as f64);
        Ok(Self { replicas, users: most, held, devices, step })
    }

    /// Devices of all replicas.
    pub fn all_devices(&self) -> u64 {
        self.replicas * self.devices
    }

    /// Tokens per second of all users together, at most.
    pub fn rate(&self, users: u64) -> f64 {
        users as f64 / self.step
    }
}
