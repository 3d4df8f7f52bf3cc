//! What every chapter's `train` takes, and the plan that it means.

use clap::{Args, ValueEnum};
use lab::flags::{DeviceFlags, ModelFlags};
use lab::plot;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use training::optimiser::{AdamW, Decay, Rule};
use training::plan::Plan;
use training::schedule::Schedule;

/// The cosine ends at this share of the learning rate.
const FLOOR: f64 = 0.1;

/// What `train` takes, whatever the layout.
#[derive(Args, Debug)]
pub struct TrainFlags {
    /// The shape, or the model itself.
    #[command(flatten)]
    pub model: ModelFlags,
    /// Start from random weights of this seed, in the shape of --model [default without --model: the value of --seed]
    #[arg(long, value_name = "SEED")]
    pub(super) random: Option<u64>,
    /// Where to compute.
    #[command(flatten)]
    pub device: DeviceFlags,
    /// Text to train on, UTF-8 [default: as many generated stories as the run reads]
    #[arg(long, value_name = "FILE")]
    pub(super) corpus: Option<PathBuf>,
    /// Seed of the stories, of their order, and of random weights
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// What decides the trajectory.
    #[command(flatten)]
    pub hyper: Hyperparameters,
    /// Folder of the run: checkpoints, metrics.jsonl, loss.svg [default: out/, the chapter, /train]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A checkpoint after every so many steps; 0: only at the end and on Ctrl-C
    #[arg(long, value_name = "STEPS", default_value_t = 100)]
    checkpoint_every: u64,
    /// Go on with the run in --out, from its newest checkpoint
    #[arg(long, conflicts_with = "overwrite")]
    pub(super) resume: bool,
    /// Delete the run that is in --out
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Write the trained model into this folder, in Hugging Face layout
    #[arg(long, value_name = "DIR")]
    pub(super) save: Option<PathBuf>,
    /// Draw the loss into this file, .svg or .png [default: loss.svg in --out]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The numbers that decide a trajectory.
#[derive(Args, Clone, Debug)]
pub struct Hyperparameters {
    /// Optimiser steps
    #[arg(long, value_name = "STEPS", default_value_t = 100)]
    pub steps: u64,
    /// Sequences per step
    #[arg(long, value_name = "ROWS", default_value_t = 16)]
    pub batch: usize,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 256)]
    pub seq: usize,
    /// Micro-batches that a batch is cut into: less memory, the same gradient [default: 1; in a pipeline two per stage]
    #[arg(long, visible_alias = "micro-batches", value_name = "COUNT")]
    accumulate: Option<usize>,
    /// How a gradient becomes a step
    #[arg(long, value_name = "RULE", default_value = "adamw")]
    optimizer: Optimizer,
    /// Highest learning rate [default: 0.003 for adamw, 0.1 for sgd]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    lr: Option<f64>,
    /// How the learning rate goes on after the warm-up; the cosine falls to a tenth
    #[arg(long, value_name = "SHAPE", default_value = "cosine")]
    lr_schedule: Shape,
    /// Steps over which the learning rate rises [default: a twentieth of --steps for cosine, 0 for constant]
    #[arg(long, value_name = "STEPS")]
    warm_up: Option<u64>,
    /// Weight decay of matrices, for adamw; norms and biases do not decay
    #[arg(long, value_name = "RATE", default_value_t = 0.1, allow_negative_numbers = true)]
    weight_decay: f64,
    /// Largest norm of the gradient; inf does not clip
    #[arg(long, value_name = "NORM", default_value_t = 1.0, allow_negative_numbers = true)]
    clip: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Optimizer {
    /// Without state: to compare layouts with, because it hides nothing
    Sgd,
    /// Adam with decoupled weight decay, β = (0.9, 0.95)
    Adamw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Down to a tenth at the last step
    Cosine,
    /// As it is
    Constant,
}

impl TrainFlags {
    /// The settings of the run.
    ///
    /// # Errors
    /// A setting has no meaning.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        self.settings().map_err(in_terms_of_flags)
    }

    /// Folder of the run of a chapter: `ch2`.
    pub fn folder(&self, chapter: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| Path::new("out").join(chapter).join("train"))
    }

    fn settings(&self) -> training::Result<Plan> {
        let hyper = &self.hyper;
        let (rule, usual) = match hyper.optimizer {
            Optimizer::Sgd => (Rule::Sgd, 0.1),
            Optimizer::Adamw => {
                let settings = AdamW { weight_decay: hyper.weight_decay, decay: Decay::Matrices, ..AdamW::default() };
                (Rule::AdamW(settings), 3e-3)
            }
        };
        let peak = hyper.lr.unwrap_or(usual);
        let schedule = match hyper.lr_schedule {
            Shape::Cosine => {
                let warm_up = hyper.warm_up.unwrap_or(hyper.steps / 20);
                Schedule::cosine(peak, peak * FLOOR, warm_up, hyper.steps.max(1))?
            }
            Shape::Constant => Schedule::constant(peak)?.with_warm_up(hyper.warm_up.unwrap_or(0)),
        };
        Ok(Plan {
            batch: hyper.batch,
            seq: hyper.seq,
            micro_batches: hyper.accumulate.unwrap_or(1),
            steps: hyper.steps,
            rule,
            schedule,
            clip: (hyper.clip != f64::INFINITY).then_some(hyper.clip),
            seed: self.seed,
        })
    }

    /// Micro-batches, if a number was given.
    pub fn micro_batches(&self) -> Option<usize> {
        self.hyper.accumulate
    }

    /// How often a checkpoint is made.
    ///
    /// `None`: only at the end, and on Ctrl-C.
    pub fn checkpoint_every(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.checkpoint_every)
    }

    /// Where the loss curve of the run in `folder` goes; checked before the run.
    ///
    /// # Errors
    /// The file's name has another ending than `.svg` or `.png`.
    pub fn plot(&self, folder: &Path) -> lab::Result<PathBuf> {
        let path = self.plot.clone().unwrap_or_else(|| folder.join("loss.svg"));
        plot::Format::of(&path)?;
        Ok(path)
    }

    /// Where the model goes.
    ///
    /// # Errors
    /// There is a file.
    pub fn save(&self) -> lab::Result<Option<&Path>> {
        match self.save.as_deref() {
            Some(path) if path.exists() && !path.is_dir() => Err(lab::Error::Flag {
                flag: "--save",
                found: path.display().to_string(),
                expected: "a folder; this is a file".into(),
            }),
            save => Ok(save),
        }
    }

    /// Refuses, before the run, to replace a model that is there already.
    ///
    /// # Errors
    /// There is one, and it was not said that it may be overwritten.
    pub fn may_save(&self) -> lab::Result<()> {
        match self.save()? {
            Some(folder) if folder.join("model.safetensors").exists() && !self.overwrite => Err(lab::Error::Flag {
                flag: "--save",
                found: folder.display().to_string(),
                expected: "there is a model already; take another folder, or --overwrite".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// The same error in terms of the flag that is to blame, which makes it bad usage.
pub fn in_terms_of_flags(error: training::Error) -> anyhow::Error {
    let training::Error::Setting { name, found, expected } = error else { return error.into() };
    let flag = match name {
        "batch" => "--batch",
        "sequence length" => "--seq",
        "micro-batches" => "--accumulate",
        "steps" => "--steps",
        "learning rate" => "--lr",
        "warm-up steps" => "--warm-up",
        "weight decay" => "--weight-decay",
        "clipping norm" => "--clip",
        "type of the weights" => "--dtype",
        name => return training::Error::Setting { name, found, expected }.into(),
    };
    lab::Error::Flag { flag, found, expected }.into()
}
