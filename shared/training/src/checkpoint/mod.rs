//! The whole state of a run on disk, such that it can be killed at any moment.
//!
//! ```text
//! checkpoints/
//!   step-00000040/            the one before, kept
//!   step-00000050/
//!     manifest.json           step, seed, data position, the run's settings
//!     model.safetensors       the weights
//!     optimiser.safetensors   moments and master weights
//!     SHA256SUMS              of the three, in the format of sha256sum: `sha256sum -c SHA256SUMS` checks them
//!   .partial-step-00000060/   being written, or left over from a run that was killed
//! ```
//!
//! A checkpoint is written into a hidden folder, flushed to the disk, read back and compared with its checksums, and only then renamed to
//! its name; only then is an older one deleted. So at every moment there is a whole checkpoint under its name, and with the
//! one before it a second for the case that the disk changes the newest later.
//!
//! Reading order: [`save`] and [`latest`] here, then `folder.rs` (names, renames), `sums.rs` (checksums), `tensors.rs` (the safetensors files).

mod folder;
mod manifest;
mod sums;
mod tensors;
#[cfg(test)]
mod tests;

use crate::elements::overwrite;
use crate::optimiser::OptimiserState;
use crate::{Error, Named, Result};
use candle_core::Device;
use folder::Candidate;
use ledger::Kind;
use manifest::Manifest;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
const MODEL: &str = "model.safetensors";
const OPTIMISER: &str = "optimiser.safetensors";

/// Everything that a run's future depends on, besides its settings.
///
/// To save: clones of the tensors, which share their storage, so this costs no memory. Loaded: tensors of its own.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Steps done; the next step has this number.
    pub step: u64,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Rows of the corpus drawn so far ([`Batches::position`](crate::data::Batches::position)).
    pub data_position: u64,
    /// The parameters.
    pub weights: Named,
    /// The optimiser's state.
    pub optimiser: OptimiserState,
}

impl Snapshot {
    /// Writes the weights into `parameters`, in place: the model that holds them has them.
    ///
    /// # Errors
    /// Names, shapes or types differ; nothing has changed then.
    pub fn copy_weights_into(&self, parameters: &Named) -> Result<()> {
        let mismatch = |name: &str, found: String, expected: String| {
            Err(Error::Mismatch { what: "weight", name: name.into(), found, expected })
        };
        let describe = |tensor: &candle_core::Tensor| format!("{} {:?}", tensor.dtype().as_str(), tensor.dims());
        for (name, parameter) in parameters {
            match self.weights.get(name) {
                Some(weight) if describe(weight) == describe(parameter) => {}
                Some(weight) => return mismatch(name, describe(weight), describe(parameter)),
                None => return mismatch(name, "none in the checkpoint".into(), describe(parameter)),
            }
        }
        if let Some(name) = self.weights.keys().find(|name| !parameters.contains_key(*name)) {
            return mismatch(name, "a weight in the checkpoint".into(), "none: the model has no such weight".into());
        }
        for (parameter, weight) in parameters.values().zip(self.weights.values()) {
            overwrite(parameter, weight)?;
        }
        Ok(())
    }
}

/// Of a run whose model lies in parts on several ranks.
impl Snapshot {
    /// The part that belongs to `parameters`.
    pub fn part(&self, parameters: &Named) -> Self {
        let weight_of = |key: &str| key.rsplit_once('.').map_or("", |(name, _)| name).to_owned();
        let keep = |all: &Named, name: &dyn Fn(&str) -> String| {
            let kept = all.iter().filter(|(key, _)| parameters.contains_key(name(key).as_str()));
            kept.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let optimiser =
            OptimiserState { steps: self.optimiser.steps, tensors: keep(&self.optimiser.tensors, &weight_of) };
        Self { weights: keep(&self.weights, &str::to_owned), optimiser, ..self.clone() }
    }

    /// Adds a part; what both have is the same in both.
    pub fn join(&mut self, part: Self) {
        self.weights.extend(part.weights);
        self.optimiser.tensors.extend(part.optimiser.tensors);
    }
}

/// A checkpoint that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What [`latest`] found.
#[derive(Clone, Debug)]
pub struct Latest {
    /// Folder of the checkpoint.
    pub path: PathBuf,
    /// Its contents.
    pub snapshot: Snapshot,
    /// Newer ones that are not usable, and why: to be told to the user.
    pub skipped: Vec<Skipped>,
}

/// Saves a checkpoint of a run with the settings `config` under `root`, and returns its folder.
///
/// Afterwards `root` holds this one and the one before it.
///
/// # Errors
/// The disk is full, cannot be written, or does not give back what was written; or `root` has a usable checkpoint of a later step, which
/// would be taken for the newer one. The checkpoints that were there are unchanged then.
pub fn save(root: &Path, snapshot: &Snapshot, config: &serde_json::Value) -> Result<PathBuf> {
    save_through(root, snapshot, config, &|path| Ok(Box::new(std::fs::File::create(path)?)))
}

/// The newest usable checkpoint under `root`, its tensors on `device`; `None` if there has never been one.
///
/// # Errors
/// It is of a run with other settings (the message says which differ), there are checkpoints but none is usable, or a file cannot be read.
pub fn latest(root: &Path, config: &serde_json::Value, device: &Device) -> Result<Option<Latest>> {
    let mut skipped: Vec<Skipped> = folder::partial(root)?
        .into_iter()
        .map(|path| Skipped { path, reason: "half-written: the run ended while it was being saved".into() })
        .collect();
    let candidates = folder::candidates(root)?;
    for Candidate { path, .. } in &candidates {
        match load(path, config, device) {
            Ok(snapshot) => return Ok(Some(Latest { path: path.clone(), snapshot, skipped })),
            Err(Error::Checkpoint { path, problem }) => skipped.push(Skipped { path, reason: problem }),
            Err(other) => return Err(other),
        }
    }
    if candidates.is_empty() {
        return Ok(None);
    }
    let reasons: Vec<_> = skipped.iter().map(|one| format!("{}: {}", one.path.display(), one.reason)).collect();
    let problem = format!("none is usable ({}); start again in another folder", reasons.join("; "));
    Err(Error::Checkpoint { path: root.to_owned(), problem })
}

/// Whether there is anything under `root` that [`latest`] would look at.
///
/// # Errors
/// The folder cannot be read.
pub fn exists(root: &Path) -> Result<bool> {
    Ok(!folder::candidates(root)?.is_empty())
}

/// Deletes every checkpoint under `root`, and what killed runs left behind; nothing else.
///
/// # Errors
/// A folder cannot be deleted.
pub fn remove_all(root: &Path) -> Result<()> {
    let candidates = folder::candidates(root)?.into_iter().map(|one| one.path);
    candidates.chain(folder::partial(root)?).try_for_each(|path| folder::remove(&path))
}

/// A file being written, that can be forced onto the disk.
trait Sink: Write {
    fn sync(&mut self) -> io::Result<()>;
}

impl Sink for std::fs::File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// How files are made; tests put a full disk here.
type Create<'a> = &'a dyn Fn(&Path) -> io::Result<Box<dyn Sink>>;

fn save_through(root: &Path, snapshot: &Snapshot, config: &serde_json::Value, create: Create) -> Result<PathBuf> {
    std::fs::create_dir_all(root).map_err(Error::file("create", root))?;
    folder::refuse_later(root, snapshot.step)?;
    let partial = folder::start_partial(root, snapshot.step)?;
    let written = write_all(&partial, snapshot, config, create).and_then(|()| sums::verify(&partial));
    if let Err(error) = written {
        // Only to give the space back: `latest` ignores the folder, and the next save deletes it.
        let _ = std::fs::remove_dir_all(&partial);
        return Err(error);
    }
    let path = folder::publish(root, &partial, snapshot.step)?;
    folder::prune(root, snapshot.step)?;
    Ok(path)
}

fn write_all(partial: &Path, snapshot: &Snapshot, config: &serde_json::Value, create: Create) -> Result<()> {
    let _scope = ledger::scope(Kind::Host);
    let manifest = Manifest::new(snapshot, config);
    let sums = [
        sums::write(partial, MANIFEST, create, |out| manifest.write(out))?,
        sums::write(partial, MODEL, create, |out| tensors::write(&snapshot.weights, out))?,
        sums::write(partial, OPTIMISER, create, |out| tensors::write(&snapshot.optimiser.tensors, out))?,
    ];
    sums::write(partial, sums::FILE, create, |out| out.write_all(sums.concat().as_bytes()))?;
    folder::sync(partial)
}

fn load(path: &Path, config: &serde_json::Value, device: &Device) -> Result<Snapshot> {
    let _scope = ledger::scope(Kind::Host);
    sums::verify(path)?;
    let manifest = Manifest::read(path)?;
    manifest.check_config(path, config)?;
    Ok(Snapshot {
        step: manifest.step,
        seed: manifest.seed,
        data_position: manifest.data_position,
        weights: tensors::read(&path.join(MODEL), device)?,
        optimiser: OptimiserState {
            steps: manifest.optimiser_steps,
            tensors: tensors::read(&path.join(OPTIMISER), device)?,
        },
    })
}
