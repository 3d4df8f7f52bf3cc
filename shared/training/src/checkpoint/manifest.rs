//! What a checkpoint says about itself, and how the settings of two runs are compared.

use super::{MANIFEST, Snapshot};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

/// Version of the layout; a change that older code cannot read increases it.
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    pub(super) step: u64,
    pub(super) seed: u64,
    pub(super) data_position: u64,
    pub(super) optimiser_steps: u64,
    config: Value,
}

impl Manifest {
    pub(super) fn new(snapshot: &Snapshot, config: &Value) -> Self {
        Self {
            format: FORMAT,
            step: snapshot.step,
            seed: snapshot.seed,
            data_position: snapshot.data_position,
            optimiser_steps: snapshot.optimiser.steps,
            config: config.clone(),
        }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }

    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = std::fs::read(&path).map_err(Error::file("read", &path))?;
        let problem = |problem| Error::Checkpoint { path: folder.to_owned(), problem };
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|error| problem(format!("{MANIFEST} is not a manifest: {error}")))?;
        if manifest.format != FORMAT {
            return Err(problem(format!("format {}, this program reads {FORMAT}", manifest.format)));
        }
        Ok(manifest)
    }

    /// An error that says which settings differ.
    pub(super) fn check_config(&self, folder: &Path, config: &Value) -> Result<()> {
        // The run's settings take the same way through text as the checkpoint's did, so that numbers are rounded alike.
        let as_saved = serde_json::to_string(config).and_then(|text| serde_json::from_str(&text));
        let config: Value = as_saved.map_err(|error| Error::Checkpoint {
            path: folder.to_owned(),
            problem: format!("this run's settings: {error}"),
        })?;
        let mut differences = Vec::new();
        compare("", &self.config, &config, &mut differences);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::OtherConfig { path: folder.to_owned(), differences })
    }
}

/// Adds one line per leaf that differs.
fn compare(at: &str, checkpoint: &Value, run: &Value, differences: &mut Vec<String>) {
    let (Value::Object(old), Value::Object(new)) = (checkpoint, run) else {
        if checkpoint != run {
            let at = if at.is_empty() { "settings" } else { at };
            differences.push(format!("{at}: checkpoint {checkpoint}, this run {run}"));
        }
        return;
    };
    let absent = Value::String("(absent)".into());
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => compare(&at, old, new, differences),
            (old, new) => {
                let (old, new) = (old.unwrap_or(&absent), new.unwrap_or(&absent));
                differences.push(format!("{at}: checkpoint {old}, this run {new}"));
            }
        }
    }
}
