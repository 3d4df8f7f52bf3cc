//! The folders of checkpoints: their names, and the renames that make a save atomic.

use super::sums;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

const PARTIAL: &str = ".partial-";
const STEP: &str = "step-";
/// A checkpoint of the same step that is about to be replaced; still a checkpoint until it is deleted.
const REPLACED: &str = ".replaced";

/// A folder with a checkpoint's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) step: u64,
    pub(super) replaced: bool,
    pub(super) path: PathBuf,
}

/// All checkpoints, newest first. Of a folder that does not exist: none.
pub(super) fn candidates(root: &Path) -> Result<Vec<Candidate>> {
    let mut candidates: Vec<_> = names(root)?
        .into_iter()
        .filter_map(|name| {
            let (step, replaced) = match name.strip_suffix(REPLACED) {
                Some(name) => (name.strip_prefix(STEP)?, true),
                None => (name.strip_prefix(STEP)?, false),
            };
            Some(Candidate { step: step.parse().ok()?, replaced, path: root.join(&name) })
        })
        .collect();
    candidates.sort_by_key(|one| (std::cmp::Reverse(one.step), one.replaced));
    Ok(candidates)
}

/// What killed runs left behind.
pub(super) fn partial(root: &Path) -> Result<Vec<PathBuf>> {
    Ok(names(root)?.iter().filter(|name| name.starts_with(PARTIAL)).map(|name| root.join(name)).collect())
}

/// An empty folder to write into; deletes what killed runs left behind.
pub(super) fn start_partial(root: &Path, step: u64) -> Result<PathBuf> {
    for left_over in partial(root)? {
        remove(&left_over)?;
    }
    let path = root.join(format!("{PARTIAL}{}", name(step)));
    std::fs::create_dir(&path).map_err(Error::file("create", &path))?;
    Ok(path)
}

/// Later checkpoints would be taken for newer than the one to be saved: unusable ones are deleted, a usable one is an error.
pub(super) fn refuse_later(root: &Path, step: u64) -> Result<()> {
    for later in candidates(root)?.into_iter().filter(|one| one.step > step) {
        if is_usable(&later.path)? {
            let problem =
                format!("is of a later step than the one to be saved, {step}; resume it, or choose another folder");
            return Err(Error::Checkpoint { path: later.path, problem });
        }
        remove(&later.path)?;
    }
    Ok(())
}

/// Gives the finished folder its name.
pub(super) fn publish(root: &Path, partial: &Path, step: u64) -> Result<PathBuf> {
    let path = root.join(name(step));
    if path.exists() {
        // A folder that is not empty cannot be renamed over. At no moment is there neither the old nor the new one.
        let replaced = root.join(name(step) + REPLACED);
        if replaced.exists() {
            remove(&replaced)?;
        }
        std::fs::rename(&path, &replaced).map_err(Error::file("rename", &path))?;
    }
    std::fs::rename(partial, &path).map_err(Error::file("rename", partial))?;
    sync(root)?;
    Ok(path)
}

/// Deletes all but the checkpoint of `step` and the one before it.
pub(super) fn prune(root: &Path, step: u64) -> Result<()> {
    let before = candidates(root)?.into_iter().filter(|one| one.step < step || one.replaced);
    let mut kept = false;
    for one in before {
        if one.step < step && !kept {
            kept = true;
        } else {
            remove(&one.path)?;
        }
    }
    Ok(())
}

/// Forces a folder's entries onto the disk, where the system can.
pub(super) fn sync(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::file("write", folder))?;
    }
    Ok(())
}

fn is_usable(path: &Path) -> Result<bool> {
    match sums::verify(path) {
        Ok(()) => Ok(true),
        Err(Error::Checkpoint { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

/// With leading zeros, so that a listing is in order.
fn name(step: u64) -> String {
    format!("{STEP}{step:08}")
}

fn names(root: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("read", root)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::file("read", root))?;
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}

pub(super) fn remove(path: &Path) -> Result<()> {
    std::fs::remove_dir_all(path).map_err(Error::file("delete", path))
}
